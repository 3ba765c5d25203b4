#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace dynamix::simulator {

/// Random numbers whose whole state is a word and a half, so that everything random can have a stream of its own:
/// SplitMix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014; the constants of
/// Vigna's public-domain version).
class random_stream {
public:
  /// Streams of distinct (position, purpose) are unrelated.
  random_stream(std::uint64_t seed, std::uint64_t position, std::uint64_t purpose)
      : state_(mix(mix(mix(seed) ^ position) ^ purpose)) {}

  std::uint64_t next() { return mix(state_ += golden); }
  /// In [0, 1).
  double uniform() { return static_cast<double>(next() >> 11U) * 0x1p-53; }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  double exponential(double mean) { return -mean * std::log1p(-uniform()); }
  /// Standard normal (Box and Muller 1958), two at a time.
  double normal() {
    if (spare_valid_) {
      spare_valid_ = false;
      return spare_;
    }
    const double radius = std::sqrt(exponential(2));
    const double angle = 2 * std::numbers::pi * uniform();
    spare_ = radius * std::sin(angle);
    spare_valid_ = true;
    return radius * std::cos(angle);
  }

private:
  static constexpr std::uint64_t golden = 0x9e3779b97f4a7c15U;
  static constexpr std::uint64_t mix(std::uint64_t word) {
    word += golden;
    word = (word ^ (word >> 30U)) * 0xbf58476d1ce4e5b9U;
    word = (word ^ (word >> 27U)) * 0x94d049bb133111ebU;
    return word ^ (word >> 31U);
  }

  std::uint64_t state_;
  double spare_ = 0;
  bool spare_valid_ = false;
};

} // namespace dynamix::simulator
