#pragma once

/// The simplified PPO that DYNAMIX (arXiv 2510.08522) runs: the surrogate of its formula with the cumulative reward in
/// the advantage's place, without clipping and without an advantage estimate. Includes Torch: internal to policy/.

#include "policy/network_learner.hpp"

#include <vector>

namespace dynamix::policy {

/// Rewards from each transition to the end of the worker's part of the rollout, discounted. Consecutive trajectories of
/// one worker (split where the version changed) count as one. In the order of the transitions.
std::vector<float> cumulative_rewards(std::span<const messages::trajectory> rollout, double discount);

/// One step of Adam a rollout: with no clipping nothing would hold several steps near the policy that collected it.
/// Trains the policy network alone.
class ppo_simple_learner final : public network_learner {
public:
  using network_learner::network_learner;

private:
  void learn(std::span<const messages::trajectory> rollout, const rollout_rows& rows) override;
};

} // namespace dynamix::policy
