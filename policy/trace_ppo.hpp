#pragma once

/// The other way in which a worker learns by itself to go by traces: PPO (Schulman et al. 2017, arXiv 1707.06347)
/// instead of a DQN, with networks of the same shape. What comes of it is used the same way: the action of the highest
/// value, which here is the most probable one.

#include "policy/trace_network.hpp"
#include "storage/splitmix64.hpp"

#include <span>
#include <vector>

namespace dynamix::policy {

struct trace_ppo_learning {
  double learning_rate = 0.002;
  double discount = 0.5;
  double clip = 0.2;
  double entropy_coefficient = 0.002;
  double prefers_hand = 0.7; ///< probability of the hand rule's action before anything is learned
  std::uint32_t passes = 4;  ///< over what was lived through
  std::uint32_t minibatch = 64;
};

/// The reward is what an action brought in its own step (trace_worker::worth), so advantages look one step ahead:
/// reward
/// + discount x the next value - the value.
class trace_ppo_learner {
public:
  /// `start`: what it begins with; its values are the logarithms of the actions' odds.
  trace_ppo_learner(const trace_network& start, std::uint64_t seed, trace_ppo_learning options);
  /// What nobody has taught anything yet: random first layer, and mostly the hand rule.
  static trace_network fresh(storage::splitmix64& numbers, const trace_ppo_learning& options);

  const trace_network& network() const { return network_; }
  /// An action by the network's probabilities; `place` is uniform over [0, 1).
  std::size_t draw(const trace_view& seen, double place) const;
  /// Learns from transitions whose actions were drawn from the network as it is.
  void learn_from(std::span<const trace_transition> lived);
  void set_learning_rate(double rate) { options_.learning_rate = rate; }
  /// A copy with another seed learns in another order.
  void reseed(std::uint64_t seed) { numbers_ = storage::splitmix64(seed); }
  /// Everything, as numbers; `restore` takes as many back.
  static constexpr std::size_t saved_numbers = 6 * trace_network::parameter_count + 3;
  static constexpr std::size_t saved_squares = 4 * trace_network::parameter_count; ///< from here none is below 0
  std::vector<double> save() const;
  void restore(std::span<const double> saved);

private:
  struct lesson {
    const trace_transition* of = nullptr;
    float log_probability = 0; ///< of its action, when it was taken
    float advantage = 0;
    float target = 0; ///< of the value
  };
  std::vector<lesson> judge(std::span<const trace_transition> lived) const;
  void descend(std::span<const lesson> lessons);

  trace_ppo_learning options_;
  trace_network network_;
  trace_network critic_; ///< its first value counts
  trace_adam actor_adam_;
  trace_adam critic_adam_;
  storage::splitmix64 numbers_;
};

} // namespace dynamix::policy
