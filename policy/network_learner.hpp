#pragma once

/// What the learners share: the network, Adam, the generator, and how all of it is saved. Includes Torch: internal to
/// policy/.

#include "policy/actor_critic.hpp"
#include "policy/learner.hpp"
#include "policy/policy_file.hpp"
#include "storage/tensor_file.hpp"

#include <random>

namespace dynamix::policy {

/// A rollout as tensors, one row a transition, a worker's transitions in their order.
struct rollout_rows {
  torch::Tensor states;            ///< [n, state_size]
  torch::Tensor actions;           ///< [n], int64
  torch::Tensor log_probabilities; ///< [n], of the actions when they were drawn
  torch::Tensor values;            ///< [n], when they were drawn
};

class network_learner : public learner {
public:
  network_learner(policy_shape shape, cluster::ppo options, std::uint64_t seed);

  messages::policy_version update(std::span<const messages::trajectory> rollout) final;
  messages::policy_version current() const override;
  std::vector<std::uint8_t> save() const override;
  /// Takes over what `save` gave, or a policy's parameters alone. Returns an empty string, or why it does not fit; then
  /// the learner is not to be used.
  std::string restore(std::span<const std::uint8_t> saved);

protected:
  /// The learning itself. `rows` follow the trajectories, of which there is at least one and none empty.
  virtual void learn(std::span<const messages::trajectory> rollout, const rollout_rows& rows) = 0;
  /// One step of Adam down `loss`, its gradient clipped to max_gradient_norm over all parameters together. A gradient
  /// that is not finite is not followed.
  void descend(const torch::Tensor& loss);
  void set_learning_rate(double learning_rate);

  const policy_shape shape_;
  const cluster::ppo options_;
  actor_critic network_;
  std::mt19937_64 generator_;
  messages::policy_version last_; ///< version and numbers of the last update; no parameters
  std::uint64_t begun_at_ = 0;    ///< version of the policy that learning began with

private:
  void widen_range(const torch::Tensor& states);
  storage::tensor_file to_file() const;
  bool fits(const messages::trajectory& candidate) const;
  std::string restore_adam(const storage::tensor_file& file, const std::string& name, const torch::Tensor& parameter);

  torch::optim::Adam optimizer_;
  torch::Tensor range_low_; ///< [state_size], of all states learned from; undefined before the first
  torch::Tensor range_high_;
};

} // namespace dynamix::policy
