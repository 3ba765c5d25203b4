#pragma once

/// Synchronous data-parallel training of any model on any images, in one generation. Internal to the room: includes
/// Torch.
///
/// One step: deal sample ranges -> forward, backward with the gradients' exchange under way -> wait for the sums ->
/// noise estimate, learning rate from the global batch, clipping -> optimiser. Every `window_steps` steps, counted from
/// step 0, a window closes, and its statistics go to the observer. `settle_steps` later the workers agree on the
/// decision that holds from the next step on, and on whether to stop or to regroup. What is agreed is gathered at the
/// start of the step before, so it has long arrived at its end.
///
/// Where workers leave traces (policy/traces.hpp), each has laid its own beside its gradients, so at the end of a step
/// all hold all traces, and from them come to the same batch sizes for the next one. Traces are a generation's: after
/// it each is measured anew. What is decided is a wish to them under `ppo`, and nothing under `stigmergic`.

#include "client/lockstep.hpp"
#include "client/window_sums.hpp"
#include "exchange/group.hpp"
#include "policy/traces.hpp"
#include "policy/window_watch.hpp"
#include "session/agreement.hpp"
#include "trainer/session.hpp"
#include "trainer/training_state.hpp"
#include "trainer/training_step.hpp"

#include <torch/torch.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace dynamix::trainer {

using client::dealt_step;
using client::window_sums;

using dynamix::session::agreement;

/// How a generation ended in good order.
struct generation_end {
  ending how = ending::failed;
  std::string reason;
};

/// What a worker knows in one generation where it goes by traces.
struct worker_traces {
  std::vector<std::uint32_t> highest; ///< of all members
  policy::trace_worker self;
  policy::trace_field field = {};
  std::uint32_t reported = 0; ///< own batch size at the end of the newest window
  policy::reflex_account account = {};
  policy::central_wish wish = {};
  bool warm = false; ///< the first step, which allocates what the others use, is over
};

/// What a worker knows in one generation where windows end by surprise or time.
struct worker_windows {
  policy::window_watch watch;
  double opened_seconds = 0;
  policy::pace_tracker pace = {};
  policy::reflex_account account = {};
  bool warm = false; ///< as a worker_traces'
};

class training_loop {
public:
  /// `state` is the same on all members, and regrouped for `place`. All arguments must outlive the loop. What of a lost
  /// generation may still be written into (buckets) belongs to the loop, never to the state.
  training_loop(training_state& state, const membership& place, exchange::group& peers, decision_slot& decisions,
                observer& watcher, const exchange::interruption& stop);

  /// Trains until the end or until all leave. Throws exchange::error when a peer is lost or `stop` is raised; the state
  /// is then that of the last completed step, but for the sampler, which a restore sets back.
  generation_end run();

private:
  void catch_up();
  void train_one_step();
  dealt_step deal();
  std::unique_ptr<exchange::gathering> begin_agreement();
  agreement finish_agreement(exchange::gathering& rows);
  step_result compute(const dealt_step& deal);
  void update(const dealt_step& deal, const step_result& result);
  void apply(const agreement& agreed);
  std::vector<float> lay_trace(std::uint64_t samples, double compute_seconds);
  void follow_traces(std::span<const float> slots, double step_seconds);
  std::vector<float> note_step(std::uint64_t samples, double compute_seconds);
  policy::window_end find_window_end(std::span<const float> notes);
  messages::reflex_statistics reflex_of_window();
  double noise_scale() const;
  void change_batches(std::vector<std::uint32_t> batches);
  void close_window(bool final);
  void evaluate_model();
  void write_checkpoint();
  void end(ending how, const std::string& reason) { end_ = {how, reason}; }
  bool ended() const { return !end_.reason.empty(); }
  bool first_member() const { return position_ == 0; }

  training_state& state_;
  const membership& place_;
  const std::uint32_t position_; ///< of this worker among the members
  exchange::group& peers_;
  decision_slot& decisions_;
  observer& watcher_;
  const exchange::interruption& stop_;
  training_step training_step_;
  std::optional<worker_traces> traces_;   ///< nothing where none are left, or without peers
  std::optional<worker_windows> windows_; ///< nothing where windows are counted, or without peers
  client::lockstep steps_;                ///< what all members derive alike; the state follows it step by step
  window_sums sums_;
  /// The first member is writing a checkpoint at that many samples; a further step means that it has done so.
  std::optional<std::uint64_t> unconfirmed_checkpoint_;
  generation_end end_;
};

} // namespace dynamix::trainer
