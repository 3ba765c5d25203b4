#pragma once

#include "policy/controller.hpp"

namespace dynamix::policy {

/// The learned policies. As make_controller, unguarded.
///
/// `ppo-add` and `ppo-simple` choose one of arbitrator.actions for every worker and add it to its batch size (DYNAMIX,
/// arXiv 2510.08522).
///
/// `ppo` starts from the plan with the highest predicted goodput (policy/measured_cluster.hpp). A worker's action is a
/// pair: a vote for the time that a step computes, one of arbitrator.scales times the plan's, and a belief in its own
/// newest window. The plan is made under the beliefs, its step time is multiplied by the geometric mean of the votes,
/// and every worker gets what it computes within that. So a policy that knows nothing does what `goodput` does, actions
/// are relative at any batch size, and no worker can fall behind by its own vote. While it learns, all workers draw
/// their votes with one common random number: votes drawn apart would cancel out in a large cluster, and nothing could
/// be learned from them. Unless it learns unguarded, as in `train-policy`, it changes batch sizes only for a predicted gain
/// (measured_cluster::worthwhile).
std::unique_ptr<controller> make_policy_controller(const cluster::cluster_file& file,
                                                   const std::vector<std::uint8_t>& parameters);

} // namespace dynamix::policy
