#pragma once

#include "cluster/cluster_file.hpp"
#include "storage/tensor_file.hpp"

#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

namespace dynamix::trainer {

/// SGD with momentum, Adam or AdamW of LibTorch, with the learning rate set step by step. Adam's and AdamW's other
/// numbers are LibTorch's defaults (betas 0.9 and 0.999, epsilon 1e-8).
class optimizer {
public:
  optimizer(const cluster::training& options, std::vector<torch::Tensor> parameters);

  void set_learning_rate(double learning_rate);
  /// Applies the gradients that the parameters hold.
  void step();

  /// All that makes the next step, exactly: `momentum.<i>`, or `exp_avg.<i>`, `exp_avg_sq.<i>` and `step.<i>`, with <i>
  /// the parameter's position. Empty before the first step.
  std::vector<storage::tensor_record> state() const;
  /// Returns an empty string, or which record is missing, strange or misshapen; then the optimiser is as it was.
  std::string restore(const std::vector<storage::tensor_record>& records);

private:
  cluster::optimizer_kind kind_;
  std::vector<torch::Tensor> parameters_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
};

/// Adam and AdamW: their steps do not grow with the gradient, which the learning-rate rules must know.
bool is_adaptive(cluster::optimizer_kind kind);

} // namespace dynamix::trainer
