#pragma once

#include <cstdint>

namespace dynamix::storage {

/// SplitMix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014; the constants of
/// Vigna's public-domain version). Chosen because its whole state is one word and every platform gives the same
/// numbers.
class splitmix64 {
public:
  static constexpr std::uint64_t increment = 0x9e3779b97f4a7c15U;

  explicit constexpr splitmix64(std::uint64_t state) : state_(state) {}

  constexpr std::uint64_t next() { return finalise(state_ += increment); }

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

  /// A bijection under which one changed bit changes half of the others on average; 0 stays 0.
  static constexpr std::uint64_t finalise(std::uint64_t bits) {
    bits = (bits ^ (bits >> 30U)) * 0xbf58476d1ce4e5b9U;
    bits = (bits ^ (bits >> 27U)) * 0x94d049bb133111ebU;
    return bits ^ (bits >> 31U);
  }

private:
  std::uint64_t state_;
};

} // namespace dynamix::storage
