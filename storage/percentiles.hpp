#pragma once

/// Figures over many measurements. Pure.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace dynamix::storage {

struct percentiles {
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
  double max = 0;
  std::size_t count = 0; ///< 0: the others say nothing
};

/// By nearest rank: p is the smallest of the values that at least the share p of them do not exceed.
template <class Number>
percentiles percentiles_of(std::vector<Number> values) {
  if (values.empty())
    return {};
  std::ranges::sort(values);
  const auto nearest = [&](double share) -> double {
    const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
    return values[std::max<std::size_t>(1, rank) - 1];
  };
  return {.p50 = nearest(0.5), .p90 = nearest(0.9), .p99 = nearest(0.99), .max = values.back(), .count = values.size()};
}

} // namespace dynamix::storage
