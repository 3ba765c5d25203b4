#pragma once

/// How large a learner may be, so that what is saved of it can be read again.

#include <cstdint>

namespace dynamix::cluster {

/// A learner's file holds weights and Adam's two moments of two networks with two hidden layers each, for up to so many
/// inputs and actions, and something besides; a larger one could be written, but not read.
inline constexpr std::uint64_t learner_bytes_max = 16U << 20;
constexpr std::uint64_t learner_bytes(std::uint64_t hidden) {
  constexpr std::uint64_t inputs = 64;
  constexpr std::uint64_t actions = 64;
  constexpr std::uint64_t besides = 64U << 10;
  const auto weights = 2 * ((inputs + 1) * hidden + (hidden + 1) * hidden) + (hidden + 1) * (actions + 1);
  return besides + 3 * sizeof(float) * weights;
}
constexpr std::uint32_t hidden_max() {
  std::uint32_t hidden = 0;
  while (learner_bytes(hidden + 1) <= learner_bytes_max)
    ++hidden;
  return hidden;
}

} // namespace dynamix::cluster
