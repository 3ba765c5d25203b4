#pragma once

/// An exponential moving average of a model's parameters. Internal to the room: includes Torch.

#include "storage/tensor_file.hpp"

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <vector>

namespace dynamix::trainer {

/// Follows the parameters after each step. It forgets by samples, never by steps, so that batch sizes that change do
/// not bend it: a step of b samples counts 1 - e^(-b/horizon), and as long as fewer samples than that have been seen b
/// over all of them, which makes it their plain mean. (Polyak and Juditsky, 1992, with a horizon.)
class weight_average {
public:
  /// Of `model`, from which it begins. `horizon` samples of all workers; 0: none is kept, and nothing below does
  /// anything.
  weight_average(const torch::nn::Module& model, std::uint64_t horizon);

  /// After a step of `step_samples` samples behind `done` others, of all workers.
  void follow(std::uint64_t step_samples, std::uint64_t done);
  /// Exchanges what the parameters hold and their average.
  void swap();

  /// Under the parameters' names.
  std::vector<storage::tensor_record> state() const;
  /// No records: it begins anew, with what the parameters hold. Returns an empty string, or which record is missing or
  /// misshapen; then it is as it was.
  std::string restore(const std::vector<storage::tensor_record>& records);

private:
  torch::OrderedDict<std::string, torch::Tensor> parameters_;
  std::vector<torch::Tensor> averages_; ///< of each; empty where none are kept
  double horizon_;
};

/// While it lives, the model computes with its averaged weights, where there are any.
class averaged_weights {
public:
  explicit averaged_weights(weight_average& of) : of_(of) { of_.swap(); }
  ~averaged_weights() { of_.swap(); }
  averaged_weights(const averaged_weights&) = delete;
  averaged_weights& operator=(const averaged_weights&) = delete;

private:
  weight_average& of_;
};

} // namespace dynamix::trainer
