#pragma once

/// Synchronous data-parallel training of any model on any images, in one generation. Internal to the room: includes
/// Torch.
///
/// One step: deal sample ranges -> forward, backward with the gradients' exchange under way -> wait for the sums ->
/// noise estimate, learning rate from the global batch, clipping -> optimiser. Every `window_steps` steps, counted from
/// step 0, a window closes, and its statistics go to the observer. Behind the last gradients of each step go the
/// workers' rows, so at its end all know the same, and what follows from it for the next step (client/lockstep.hpp).

#include "client/core_demand.hpp"
#include "client/cpu_quota.hpp"
#include "client/lockstep.hpp"
#include "client/window_sums.hpp"
#include "exchange/group.hpp"
#include "session/agreement.hpp"
#include "trainer/session.hpp"
#include "trainer/training_state.hpp"
#include "trainer/training_step.hpp"

#include <torch/torch.h>

#include <algorithm>
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
  std::vector<std::int64_t> write_row(double compute_seconds, bool finite);
  agreement read_rows(std::span<const std::int64_t> rows);
  step_result compute(const dealt_step& deal);
  void update(const dealt_step& deal, const step_result& result, double start_seconds);
  double descend(const dealt_step& deal, const step_result& result);
  void drop();
  void count(const step_result& result, std::uint64_t own, double norm);
  /// In force in the last completed step.
  const client::planned_batches& last_batches() const {
    return steps_.batches_at(std::max<std::uint64_t>(state_.reached.step, 1) - 1);
  }
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
  client::lockstep steps_; ///< what all members come to alike; the state follows it step by step
  client::core_demand cores_;
  client::cpu_quota quota_;
  window_sums sums_;
  /// The first member is writing a checkpoint at that many samples; a further step means that it has done so.
  std::optional<std::uint64_t> unconfirmed_checkpoint_;
  std::uint32_t dropped_in_a_row_ = 0; ///< steps
  generation_end end_;
};

} // namespace dynamix::trainer
