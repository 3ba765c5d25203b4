#pragma once

/// Figures over many latencies. Pure.

#include <cstddef>
#include <vector>

namespace dynamix::swarm {

/// Seconds.
struct percentiles {
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
  double max = 0;
  std::size_t count = 0; ///< 0: the others say nothing
};

/// By nearest rank: p is the smallest of the values that at least the share p of them do not exceed.
percentiles percentiles_of(std::vector<float> values);

} // namespace dynamix::swarm
