#pragma once

/// The network of the learned policies (policy/policy_network.hpp) with gradients, for those who learn. Includes Torch:
/// internal to policy/.

#include "policy/policy_network.hpp"

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace dynamix::policy {

/// Float32 on the CPU.
class actor_critic {
public:
  /// Begins with the numbers of `plain`.
  explicit actor_critic(const policy_network& plain);
  actor_critic(actor_critic&&) = default; // a copy would share its tensors

  /// The numbers as they are now.
  policy_network plain() const;
  /// Takes over the numbers of `plain`, of the same shape; the tensors stay.
  void assign(const policy_network& plain);

  /// [n, state_size] -> [n, actions], unnormalised log-probabilities.
  torch::Tensor logits(const torch::Tensor& states) const { return forward(0, states); }
  /// [n, state_size] -> [n].
  torch::Tensor values(const torch::Tensor& states) const { return forward(tensors_.size() / 2, states).squeeze(1); }

  std::int64_t state_size() const { return tensors_.front().second.size(1); }
  std::int64_t actions() const { return tensors_[tensors_.size() / 2 - 1].second.size(0); }

  /// "policy.0.weight" to "value.2.bias", in a fixed order. The tensors are the network's own.
  const std::vector<std::pair<std::string, torch::Tensor>>& named_parameters() const { return tensors_; }
  std::vector<torch::Tensor> parameters() const;

private:
  torch::Tensor forward(std::size_t first, torch::Tensor activations) const;

  policy_network shape_; ///< only names and shapes count
  std::vector<std::pair<std::string, torch::Tensor>> tensors_;
};

} // namespace dynamix::policy
