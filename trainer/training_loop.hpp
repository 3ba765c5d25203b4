#pragma once

/// Synchronous data-parallel training of any model on any images, to the end. Internal to the room: includes Torch.
///
/// One step: deal sample ranges -> forward, backward with the gradients' exchange under way -> wait for the sums ->
/// noise estimate, learning rate from the global batch, clipping -> optimiser. Every `window_steps` steps, counted from
/// step 0, a window closes, and its statistics go to the observer. `settle_steps` later the workers agree on the
/// decision that holds from the next step on. What is agreed is gathered at the start of the step before, so it has
/// long arrived at its end.

#include "cluster/cluster_file.hpp"
#include "trainer/agreement.hpp"
#include "trainer/batch_loader.hpp"
#include "trainer/checkpoint.hpp"
#include "trainer/checkpoint_files.hpp"
#include "trainer/exchange.hpp"
#include "trainer/optimizer.hpp"
#include "trainer/session.hpp"
#include "trainer/training_step.hpp"
#include "trainer/window_sums.hpp"

#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

namespace dynamix::trainer {

struct loop_options {
  cluster::training training;
  cluster::batch batch;
  std::uint32_t window_steps = 10;
  std::uint32_t settle_steps = 0; ///< cluster::settle_steps; below window_steps
  std::uint64_t seed = 1;
  std::vector<cluster::emulation> emulate; ///< of this host
  std::string checkpoint_directory;        ///< empty: write none
  torch::Device device = torch::kCPU;
};

class training_loop {
public:
  /// All arguments but `options` and `model` must outlive the loop. `model` is on the options' device.
  training_loop(loop_options options, torch::nn::Sequential model, const dataset& train, const dataset& test,
                exchange& peers, clock& time, decision_slot& decisions, observer& watcher);

  /// The state after the last completed step, also while an exception of `run` is being handled.
  checkpoint capture() const;
  /// Goes on from `state`, which must be the same on all ranks; its batch sizes are brought inside the bounds. Returns
  /// an empty string, or why it does not fit.
  std::string restore(const checkpoint& state);

  /// Trains to the end. Throws exchange_error when a peer is lost.
  outcome run();
  /// The outcome as far as it is known after the last completed step; `succeeded` is false.
  outcome progress() const;
  /// Completed steps.
  std::uint64_t step() const { return step_; }

private:
  /// The rows of a window boundary on their way.
  struct gathering {
    torch::Tensor row;
    torch::Tensor rows;
    std::unique_ptr<pending_exchange> pending;
  };

  void train_one_step();
  gathering begin_agreement();
  agreement finish_agreement(gathering& gathered);
  step_result compute(const deal_result& deal);
  void update(const deal_result& deal, const step_result& result);
  void apply(const agreement& agreed);
  void close_window(bool final);
  void evaluate_model();
  bool crossed(double every_epochs, std::uint64_t samples_before) const;
  double elapsed_seconds() const;

  loop_options options_;
  torch::nn::Sequential model_;
  exchange& peers_;
  clock& time_;
  decision_slot& decisions_;
  observer& watcher_;
  batch_loader train_loader_;
  batch_loader test_loader_;
  std::uint64_t test_samples_;
  training_step training_step_;
  optimizer optimizer_;
  sampler sampler_;
  gradient_noise noise_;
  learning_rate rule_;
  checkpoint_files checkpoints_;
  std::uint64_t wanted_samples_; ///< by all workers; the end

  // As of the last completed step.
  std::uint64_t step_ = 0;
  std::uint64_t samples_ = 0; ///< by all workers
  sampler_position position_;
  std::vector<std::uint32_t> batches_; ///< by rank
  std::uint64_t window_ = 0;           ///< closed
  learning_rate_step rate_;
  messages::decision_key in_force_;     ///< behind the batches; after a restore of an earlier run's arbitrator
  messages::decision_key last_applied_; ///< in this run
  window_sums sums_;
  double train_loss_ = 0; ///< summed over this worker's samples since the last evaluation
  std::uint64_t train_loss_samples_ = 0;

  double started_seconds_ = 0;
  double earlier_seconds_ = 0; ///< trained before the restore
  double accuracy_ = 0;
  double best_accuracy_ = 0;
  double seconds_to_target_ = -1;
  std::uint64_t evaluated_at_step_ = 0;
  std::string end_reason_; ///< empty while training goes on
};

} // namespace dynamix::trainer
