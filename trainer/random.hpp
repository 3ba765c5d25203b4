#pragma once

#include <cstdint>

namespace dynamix::trainer {

/// SplitMix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014; the constants of
/// Vigna's public-domain version). Chosen because its whole state is one word and every platform gives the same
/// numbers.
class splitmix64 {
public:
  explicit constexpr splitmix64(std::uint64_t state) : state_(state) {}

  constexpr std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15U;
    std::uint64_t mixed = state_;
    mixed = (mixed ^ (mixed >> 30U)) * 0xbf58476d1ce4e5b9U;
    mixed = (mixed ^ (mixed >> 27U)) * 0x94d049bb133111ebU;
    return mixed ^ (mixed >> 31U);
  }

  /// Uniform in [0, bound), without bias (Lemire, "Fast Random Integer Generation in an Interval", 2019); bound >= 1.
  constexpr std::uint32_t below(std::uint32_t bound) {
    std::uint64_t product = (next() >> 32U) * bound;
    if (static_cast<std::uint32_t>(product) < bound) {
      const std::uint32_t threshold = (0U - bound) % bound;
      while (static_cast<std::uint32_t>(product) < threshold)
        product = (next() >> 32U) * bound;
    }
    return static_cast<std::uint32_t>(product >> 32U);
  }

private:
  std::uint64_t state_;
};

/// A seed for stream `stream` of `seed`: distinct streams are unrelated.
constexpr std::uint64_t derive_seed(std::uint64_t seed, std::uint64_t stream) {
  return splitmix64(splitmix64(seed).next() ^ (stream * 0xd1342543de82ef95U)).next();
}

/// What rank `rank` seeds its generator with at step `step`. Because every step starts from here, a checkpoint needs to
/// hold only the seed and the step to restore the generators of all ranks.
constexpr std::uint64_t step_seed(std::uint64_t seed, std::uint64_t step, std::uint32_t rank) {
  return derive_seed(derive_seed(seed, step + 1), rank + 1ULL);
}

} // namespace dynamix::trainer
