#pragma once

#include <cstdint>
#include <random>

namespace dynamix::actors {

/// Tells a host's processes, or a shard's lives, apart; never 0.
inline std::uint64_t new_incarnation() {
  std::random_device source;
  return (static_cast<std::uint64_t>(source()) << 32 | source()) | 1;
}

} // namespace dynamix::actors
