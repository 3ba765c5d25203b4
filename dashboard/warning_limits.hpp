#pragma once

/// From where on a run is warned about, while it lives and when it is over.

#include "cluster/cluster_file.hpp"

#include <cmath>

namespace dynamix::dashboard {

inline constexpr double telemetry_share_max = 0.01; ///< of the step time
inline constexpr double stale_share_max = 0.05;     ///< of the reports
inline constexpr double guarded_share_max = 0.3;    ///< of the windows
inline constexpr double diverged_loss = 1e30;       ///< the trainer reports a loss that is not finite as a huge one

/// A reward that has fallen by more than that from its best has collapsed: by a fifth, or by a fifth of goodput where
/// the reward is its log2.
inline double collapse_of(cluster::reward_kind kind, double best_reward) {
  constexpr double share = 0.2;
  return kind == cluster::reward_kind::progress ? -std::log2(1 - share) : share * std::abs(best_reward);
}

} // namespace dynamix::dashboard
