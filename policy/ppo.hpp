#pragma once

/// Proximal policy optimisation (Schulman et al. 2017, arXiv 1707.06347) with the 13 core details of "The 37
/// Implementation Details of Proximal Policy Optimization" (Huang et al., ICLR blog track 2022). Includes Torch:
/// internal to policy/. The parts of an update are functions of their own, so that each can be tested alone.

#include "policy/network_learner.hpp"

#include <random>
#include <vector>

namespace dynamix::policy {

struct advantage_estimate {
  std::vector<float> advantages;
  std::vector<float> returns; ///< advantage + value: what the value function is fitted to
};
/// Generalised advantage estimation (Schulman et al. 2016, arXiv 1506.02438, formula 16) over one trajectory; its end
/// is a cut, not the end of an episode, so the bootstrap value stands for what follows.
advantage_estimate estimate_advantages(const messages::trajectory& trajectory, double discount, double gae_lambda);

/// Deals the indices 0..rows-1, shuffled, to `parts` minibatches whose sizes differ by at most one.
std::vector<torch::Tensor> deal_minibatches(std::int64_t rows, std::int64_t parts, std::mt19937_64& generator);

/// Falls linearly from `initial` before update 1 (`updates_done` = 0) to 0 after `total_updates`; constant if that is
/// 0.
double anneal_learning_rate(double initial, std::uint64_t updates_done, std::uint64_t total_updates);

/// Mean 0 over the minibatch, and standard deviation 1 unless it was below 0.1: then ten times what it was. A single
/// row, which has no deviation, stays as it is.
torch::Tensor normalise_advantages(const torch::Tensor& advantages);

/// What the network says now about the rows of a minibatch; [rows] each.
struct prediction {
  torch::Tensor log_probabilities; ///< of the actions taken
  torch::Tensor entropies;
  torch::Tensor values;
};
prediction predict(const actor_critic& network, const torch::Tensor& states, const torch::Tensor& actions);

/// What was known when the rows were collected; [rows] each.
struct target {
  torch::Tensor log_probabilities;
  torch::Tensor values;
  torch::Tensor advantages; ///< normalised
  torch::Tensor returns;
};

struct ppo_loss {
  torch::Tensor total;
  torch::Tensor policy;
  torch::Tensor value;
  torch::Tensor entropy;
  torch::Tensor approximate_kl;
  torch::Tensor clip_fraction;
};
ppo_loss compute_loss(const prediction& now, const target& then, const cluster::ppo& options);

class ppo_learner final : public network_learner {
public:
  using network_learner::network_learner;

private:
  void learn(std::span<const messages::trajectory> rollout, const rollout_rows& rows) override;
};

} // namespace dynamix::policy
