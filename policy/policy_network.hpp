#pragma once

/// The network of the learned policies: pi(a | s_i, s_global) and V(s_i, s_global), one set of parameters for all
/// workers. Written out instead of with Torch: who only decides needs some ten thousand multiplications for a worker
/// and a window. The learners have the same network with gradients (policy/actor_critic.hpp).

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace dynamix::policy {

struct policy_parameter {
  std::string name;                ///< "policy.0.weight" to "value.2.bias"
  std::vector<std::int64_t> shape; ///< of a weight [outputs, inputs], of a bias [outputs]
  std::vector<float> numbers;      ///< row-major
};

/// Policy and value function as two networks of their own (PPO details 13), each two tanh layers of `hidden` units and
/// a linear head.
class policy_network {
public:
  /// All parameters 0.
  policy_network(std::size_t state_size, std::size_t actions, std::size_t hidden);
  /// Orthogonal weights with gain sqrt(2), 0.01 for the policy's head and 1 for the value's, biases 0 (PPO details 2).
  /// The same seed gives the same parameters.
  void initialise(std::uint64_t seed);

  /// [state_size] -> [actions], unnormalised log-probabilities.
  std::vector<float> logits(std::span<const float> state) const { return forward(0, state); }
  float value(std::span<const float> state) const { return forward(parameters_.size() / 2, state).front(); }
  /// [state_size] -> [actions].
  std::vector<float> probabilities(std::span<const float> state) const;

  std::size_t state_size() const { return static_cast<std::size_t>(parameters_.front().shape[1]); }
  std::size_t actions() const;
  /// Layer by layer, the policy's first. Names and shapes stay as they are.
  std::span<const policy_parameter> parameters() const { return parameters_; }
  std::span<policy_parameter> parameters() { return parameters_; }

private:
  std::vector<float> forward(std::size_t first, std::span<const float> state) const;

  std::vector<policy_parameter> parameters_; ///< weight and bias by turns
};

} // namespace dynamix::policy
