#pragma once

#include <cstdint>

namespace dynamix::cluster {

/// Steps between the end of a window and the one from which on the decision on it may be in force. In the first of them
/// the decision is made; in the second the workers' rows say who holds it. Windows of fewer than 5 steps have
/// none to spare: there a decision waits for the end of the window after, and this is 0.
constexpr std::uint32_t settle_steps(std::uint32_t window_steps) {
  return window_steps < 5 ? 0 : 2;
}

/// The first step under the decision on the window that began with `first_step`. Boundaries count from step 0, which
/// the first window after a resume need not begin at.
constexpr std::uint64_t decision_step(std::uint64_t first_step, std::uint32_t window_steps) {
  const std::uint64_t window = first_step / window_steps;
  const auto settle = settle_steps(window_steps);
  return settle == 0 ? (window + 2) * window_steps : (window + 1) * window_steps + settle;
}

} // namespace dynamix::cluster
