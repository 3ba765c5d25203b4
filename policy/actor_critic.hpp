#pragma once

/// The network of the learned policies: pi(a | s_i, s_global) and V(s_i, s_global), one set of parameters for all
/// workers. Includes Torch: internal to policy/.

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace dynamix::policy {

/// Policy and value function as two networks of their own (PPO details 13), each two tanh layers of `hidden` units and
/// a linear head. Float32 on the CPU.
class actor_critic {
public:
  /// Fresh parameters: orthogonal weights with gain sqrt(2), 0.01 for the policy's head and 1 for the value's, biases 0
  /// (PPO details 2). The same seed gives the same parameters; Torch's global generator is not used.
  actor_critic(std::int64_t state_size, std::int64_t actions, std::int64_t hidden, std::uint64_t seed);
  actor_critic(actor_critic&&) = default; // a copy would share its tensors

  /// [n, state_size] -> [n, actions], unnormalised log-probabilities.
  torch::Tensor logits(const torch::Tensor& states) const { return forward(policy_, states); }
  /// [n, state_size] -> [n].
  torch::Tensor values(const torch::Tensor& states) const { return forward(value_, states).squeeze(1); }

  std::int64_t state_size() const { return policy_.front().weight.size(1); }
  std::int64_t actions() const { return policy_.back().weight.size(0); }

  /// "policy.0.weight" to "value.2.bias", in a fixed order. The tensors are the network's own.
  std::vector<std::pair<std::string, torch::Tensor>> named_parameters() const;
  std::vector<torch::Tensor> parameters() const;

private:
  struct layer {
    torch::Tensor weight; ///< [outputs, inputs]
    torch::Tensor bias;   ///< [outputs]
  };
  static torch::Tensor forward(const std::vector<layer>& layers, torch::Tensor activations);

  std::vector<layer> policy_;
  std::vector<layer> value_;
};

/// A matrix with orthonormal rows or columns (the shorter side), times `gain`, drawn from `generator`
/// (Saxe et al. 2014, arXiv 1312.6120).
torch::Tensor orthogonal(std::int64_t rows, std::int64_t columns, double gain, at::Generator& generator);

} // namespace dynamix::policy
