#pragma once

#include "storage/splitmix64.hpp"

#include <cstdint>

namespace dynamix::client {

using storage::splitmix64;

/// A seed for stream `stream` of `seed`: distinct streams are unrelated.
constexpr std::uint64_t derive_seed(std::uint64_t seed, std::uint64_t stream) {
  return splitmix64(splitmix64(seed).next() ^ (stream * 0xd1342543de82ef95U)).next();
}

/// What rank `rank` seeds its generator with at step `step`. Because every step starts from here, a checkpoint needs to
/// hold only the seed and the step to restore the generators of all ranks.
constexpr std::uint64_t step_seed(std::uint64_t seed, std::uint64_t step, std::uint32_t rank) {
  return derive_seed(derive_seed(seed, step + 1), rank + 1ULL);
}

} // namespace dynamix::client
