#pragma once

/// Arithmetic on what peers report that has a result for every number there is: a NaN, an infinity or a denormal moves
/// a batch size to one of its bounds, and nothing beyond.

#include "messages/types.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace dynamix::policy {

inline constexpr double shortest_step_seconds = 1e-9; ///< no step is computed in less

/// `value` inside [low, high]; NaN counts as `low`.
constexpr double bounded(double value, double low, double high) {
  return value > low ? (value < high ? value : high) : low;
}

/// What a worker says that it computes for a step, as a time that a step can take; NaN and 0 count as the shortest.
inline double computing_seconds(const messages::window_report& report) {
  return bounded(report.training.compute_seconds, shortest_step_seconds, messages::max_seconds);
}

/// Whole samples inside [low, high], rounded down; NaN counts as `low`, and so does all where `high` is below it.
inline std::uint32_t whole_samples(double samples, std::uint32_t low, std::uint32_t high) {
  return static_cast<std::uint32_t>(std::floor(bounded(samples, low, std::max(low, high))));
}

} // namespace dynamix::policy
