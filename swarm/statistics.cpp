#include "swarm/statistics.hpp"

#include <algorithm>
#include <cmath>

namespace dynamix::swarm {

percentiles percentiles_of(std::vector<float> values) {
  if (values.empty())
    return {};
  std::ranges::sort(values);
  const auto nearest = [&](double share) {
    const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
    return static_cast<double>(values[std::max<std::size_t>(1, rank) - 1]);
  };
  return {.p50 = nearest(0.5),
          .p90 = nearest(0.9),
          .p99 = nearest(0.99),
          .max = static_cast<double>(values.back()),
          .count = values.size()};
}

} // namespace dynamix::swarm
