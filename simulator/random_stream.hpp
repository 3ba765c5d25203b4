#pragma once

#include "storage/splitmix64.hpp"

#include <cmath>
#include <cstdint>
#include <numbers>

namespace dynamix::simulator {

/// Random numbers whose whole state is a word and a half, so that everything random can have a stream of its own.
class random_stream {
public:
  /// Streams of distinct (position, purpose) are unrelated.
  random_stream(std::uint64_t seed, std::uint64_t position, std::uint64_t purpose)
      : words_(first(first(first(seed) ^ position) ^ purpose) + storage::splitmix64::increment) {}

  std::uint64_t next() { return words_.next(); }
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
  static constexpr std::uint64_t first(std::uint64_t seed) { return storage::splitmix64(seed).next(); }

  storage::splitmix64 words_;
  double spare_ = 0;
  bool spare_valid_ = false;
};

} // namespace dynamix::simulator
