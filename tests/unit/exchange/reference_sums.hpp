#pragma once

/// Gradients' values as they may be drawn, and what their sums must be: slow, and of no code that is tested.

#include "storage/splitmix64.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

namespace dynamix::exchange::reference {

/// The exact sum of floats, rounded once: bit by bit, in units of 2^-149.
inline float slow_exact_sum(std::span<const float> values) {
  double special = 0;
  for (const float value : values)
    if (!std::isfinite(value))
      special += value;
  if (special != 0 || std::isnan(special))
    return static_cast<float>(special);
  std::vector<int> bits(320); // signed, before they are carried
  for (const float value : values) {
    int exponent = 0;
    auto mantissa = static_cast<std::int64_t>(std::ldexp(std::frexp(value, &exponent), 24));
    int place = exponent - 24 + 149;
    for (; place < 0; ++place)
      mantissa /= 2; // a subnormal has zeros there
    for (; mantissa != 0; mantissa /= 2, ++place)
      bits[static_cast<std::size_t>(place)] += static_cast<int>(mantissa % 2);
  }
  const auto carry = [&] {
    for (std::size_t i = 0; i + 1 < bits.size(); ++i) {
      const int upper = bits[i] >= 0 ? bits[i] / 2 : -((1 - bits[i]) / 2);
      bits[i] -= 2 * upper;
      bits[i + 1] += upper;
    }
  };
  carry();
  const bool negative = bits.back() < 0;
  if (negative) {
    for (auto& bit : bits)
      bit = -bit;
    carry();
  }
  int top = 319;
  while (top >= 0 && bits[static_cast<std::size_t>(top)] == 0)
    --top;
  if (top < 0)
    return 0;
  const int low = std::max(0, top - 23);
  double kept = 0;
  for (int i = top; i >= low; --i)
    kept = 2 * kept + bits[static_cast<std::size_t>(i)];
  const bool half = low > 0 && bits[static_cast<std::size_t>(low - 1)] != 0;
  const bool below = low > 1 && std::any_of(bits.begin(), bits.begin() + low - 1, [](int bit) { return bit != 0; });
  if (half && (below || std::fmod(kept, 2) == 1))
    kept += 1;
  const double magnitude = std::ldexp(kept, low - 149);
  const float rounded = magnitude > std::numeric_limits<float>::max() ? HUGE_VALF : static_cast<float>(magnitude);
  return negative ? -rounded : rounded;
}

/// How values are drawn.
using drawing = std::function<float(storage::splitmix64&)>;

inline float normal(storage::splitmix64& random) {
  float sum = -6; // of twelve uniform numbers: near enough
  for (int i = 0; i < 12; ++i)
    sum += static_cast<float>(random.next() >> 40U) * 0x1p-24F;
  return sum;
}
inline float heavy_tailed(storage::splitmix64& random) {
  return std::ldexp(normal(random), static_cast<int>(random.below(200)) - 100);
}
inline float subnormal(storage::splitmix64& random) {
  return std::ldexp(normal(random), -140);
}
inline float any_bits(storage::splitmix64& random) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(random.next()));
}
inline float signed_zeros_and_few(storage::splitmix64& random) {
  constexpr float some[] = {0.0F, -0.0F, 0.0F, -0.0F, 1.0F, -1.0F, 0x1p-149F, -0x1p-149F};
  return some[random.below(8)];
}
inline float with_specials(storage::splitmix64& random) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const float some[] = {NAN, infinity, -infinity, std::numeric_limits<float>::max()};
  return random.below(50) == 0 ? some[random.below(4)] : normal(random);
}
inline float near_the_largest(storage::splitmix64& random) {
  return std::copysign(std::numeric_limits<float>::max(), normal(random));
}

/// The bits of a float, those of all NaNs alike.
inline std::uint32_t bits_of(float value) {
  return std::isnan(value) ? 0x7fc00000U : std::bit_cast<std::uint32_t>(value);
}

} // namespace dynamix::exchange::reference
