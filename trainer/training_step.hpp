#pragma once

/// The computing part of one step: from sample numbers to the global batch's mean gradient. Includes Torch.

#include "exchange/group.hpp"
#include "trainer/batch_loader.hpp"
#include "trainer/clock.hpp"
#include "trainer/gradient_reducer.hpp"
#include "trainer/sampled_softmax.hpp"

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace dynamix::trainer {

/// What one step showed, before the optimiser's part.
struct step_result {
  reduction gradients;
  bool halved = false; ///< the squares are those of two half batches
  double correct = 0;  ///< of this worker's samples; see count_correct; a sampling model's are those among what it drew
  double loss = 0;     ///< summed over this worker's samples
  double data_seconds = 0;
  double compute_seconds = 0; ///< with the emulated slow-down
};

struct step_settings {
  std::size_t bucket_bytes = 1 << 20;
  double label_smoothing = 0;
  std::uint32_t micro_batch = 0; ///< most samples at once; 0: all
  bool splits = true;            ///< where the memory does not hold them, compute fewer at once from then on
  std::size_t row_columns = 0;   ///< of what each worker tells all others in a step; 0: nothing
  double top_k = 0;              ///< share of the dense gradients that a step sums; 0: all
  cluster::precision_kind precision = cluster::precision_kind::float32; ///< of forward passes
};

/// What this worker tells all others of a step that it computes in so many seconds, and whose gradient is finite or
/// not.
using row_writer = std::function<std::vector<std::int64_t>(double compute_seconds, bool finite)>;
step_settings step_settings_of(const cluster::training& training);

class training_step {
public:
  /// `loader` gives the training samples; all arguments must outlive the step. An interruption cuts the emulated
  /// slowness short, as it does the waiting for peers: exchange::error.
  training_step(torch::nn::Sequential model, batch_loader& loader, exchange::group& peers, clock& time,
                const exchange::interruption& stop, step_settings settings);

  /// Before each step: what is drawn in it (dropout, a sampling model's answers) follows from `seed` alone. `next` are
  /// the samples that the step behind it is likely to have: the loader may prepare them.
  void begin(std::uint64_t seed, std::span<const std::uint32_t> next = {});

  /// Runs the model over this worker's `samples` (none: it only takes part in the exchange) and leaves the mean
  /// gradient of the global batch in the parameters. Computing takes `slowdown` times as long as it would. `write` may
  /// be empty; it is called when the last gradients are sent off, so nobody waits for it, nor for an emulated slowness.
  step_result run(std::span<const std::uint32_t> samples, double slowdown, const row_writer& write = {});

  /// The same for a worker without peers, with its batch as two halves, which show the gradient's noise that one batch
  /// cannot. Takes at least two samples.
  step_result run_halved(std::span<const std::uint32_t> samples, double slowdown);

  const std::vector<torch::Tensor>& parameters() const { return parameters_; }
  /// Most samples that are computed at once, as given or lowered since; 0: all.
  std::uint32_t micro_batch() const { return settings_.micro_batch; }

private:
  void pass(std::span<const std::uint32_t> samples, double slowdown, step_result& result, row_source row = {});
  bool pass_in_parts(std::span<const std::uint32_t> samples, double slowdown, step_result& result);
  sampled_answers answer(const torch::Tensor& inputs, const torch::Tensor& labels);
  /// `next`: the part behind it.
  void pass_part(std::span<const std::uint32_t> samples, std::span<const std::uint32_t> next, double slowdown,
                 step_result& result);
  /// Takes note of what has been computed since the part began, and is as slow as it is to be.
  void end_part(double slowdown, step_result& result);

  torch::nn::Sequential model_;
  sampling_model* sampling_; ///< the model, if it is one
  std::span<const std::uint32_t> next_samples_;
  batch_loader& loader_;
  clock& time_;
  const exchange::interruption& stop_;
  step_settings settings_;
  std::vector<torch::Tensor> parameters_;
  const bool on_device_; ///< which computes while the host goes on: the step has computed when its gradients are there
  gradient_reducer reducer_;
  std::optional<double> part_begun_seconds_; ///< while one is computed; the first of the step on a device
  std::vector<std::pair<torch::Tensor, torch::Tensor>> sums_; ///< of each part: its loss, and what it answered right
};

/// Sleeps, and throws exchange::error as soon as `stop` is raised.
void sleep_unless_raised(clock& time, const exchange::interruption& stop, double seconds);

/// Scales the gradients of `parameters`, whose norm is `norm`, down to `clip_norm`; 0 is off.
void clip_gradients(const std::vector<torch::Tensor>& parameters, double norm, double clip_norm);

} // namespace dynamix::trainer
