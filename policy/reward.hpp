#pragma once

/// What a window was worth to the policy.

#include "cluster/cluster_file.hpp"
#include "messages/types.hpp"

namespace dynamix::policy {

/// A reward and its terms. Of kind `paper`: total = accuracy + gain - time - batch - noise; of kind `progress`: total =
/// progress. The terms of both are always there, for people to see.
struct reward_terms {
  double accuracy = 0; ///< A
  double gain = 0;     ///< alpha * max(0, dA)
  double time = 0;     ///< beta * min(T_iter, 10 s)
  double batch = 0;    ///< delta * (log2(batch) - 5)
  double noise = 0;    ///< eta * min(sigma2_norm + sigma_norm, 1000), adaptive optimisers only
  double progress = 0; ///< log2(goodput of the window / the best that was to be had), measured_cluster::progress
  double total = 0;
};

/// DYNAMIX (arXiv 2510.08522), section on the reward, with bounds on the two terms that the paper leaves without one.
/// `previous_accuracy` is the same worker's mean batch accuracy of the window before; negative when there is none (then
/// dA = 0). A batch of 0 counts as 1. The noise term is 0 while the report's gradient statistics are not valid.
reward_terms compute_reward(const messages::window_report& report, double previous_accuracy, double progress,
                            const cluster::reward& weights, cluster::reward_kind kind, bool adaptive_optimizer);

} // namespace dynamix::policy
