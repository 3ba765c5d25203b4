#include "exchange/float_sum.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace dynamix::exchange {

namespace {

/// An integer in units of the smallest subnormal, 2^-149: wide enough for 4,096 times the largest float (277 bits).
class wide_integer {
public:
  /// A finite value.
  void add(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const auto exponent = (bits >> 23U) & 0xffU;
    const std::uint64_t mantissa = (bits & 0x7fffffU) | (exponent == 0 ? 0 : 0x800000U);
    const auto place = exponent == 0 ? 0 : exponent - 1;
    const auto shifted = mantissa << (place % digit_bits);
    const auto low = static_cast<std::int64_t>(shifted & digit_mask);
    const auto high = static_cast<std::int64_t>(shifted >> digit_bits);
    const std::int64_t sign = (bits >> 31U) != 0 ? -1 : 1;
    digits_[place / digit_bits] += sign * low;
    digits_[place / digit_bits + 1] += sign * high;
  }

  float rounded() {
    carry();
    const bool negative = digits_.back() < 0;
    if (negative) {
      for (auto& digit : digits_)
        digit = -digit;
      carry();
    }
    const int length = bit_length();
    if (length == 0)
      return 0;
    const int shift = std::max(0, length - std::numeric_limits<float>::digits);
    auto mantissa = bits_from(shift);
    if (shift > 0) {
      const bool half = bit(shift - 1);
      if (half && ((mantissa & 1U) != 0 || any_below(shift - 1)))
        ++mantissa;
    }
    // Exact, and infinite from 2^128 on.
    const auto magnitude = static_cast<float>(std::ldexp(static_cast<double>(mantissa), shift - 149));
    return negative ? -magnitude : magnitude;
  }

private:
  static constexpr unsigned digit_bits = 32;
  static constexpr std::uint64_t digit_mask = 0xffffffffU;

  /// Makes every digit but the last lie in [0, 2^32); the last has the sign of the whole.
  void carry() {
    for (std::size_t i = 0; i + 1 < digits_.size(); ++i) {
      digits_[i + 1] += digits_[i] >> digit_bits;
      digits_[i] &= static_cast<std::int64_t>(digit_mask);
    }
  }
  int bit_length() const {
    for (std::size_t i = digits_.size(); i-- > 0;)
      if (digits_[i] != 0)
        return static_cast<int>(i * digit_bits) +
               static_cast<int>(std::bit_width(static_cast<std::uint64_t>(digits_[i])));
    return 0;
  }
  bool bit(int at) const {
    return ((digits_[static_cast<std::size_t>(at) / digit_bits] >> (static_cast<unsigned>(at) % digit_bits)) & 1) != 0;
  }
  bool any_below(int at) const {
    for (int i = 0; i < at; ++i)
      if (bit(i))
        return true;
    return false;
  }
  std::uint64_t bits_from(int at) const {
    std::uint64_t bits = 0;
    for (int i = std::numeric_limits<float>::digits; i-- > 0;)
      bits = bits << 1U | (bit(at + i) ? 1U : 0U);
    return bits;
  }

  std::array<std::int64_t, 11> digits_{};
};

/// Of `members` floats that lie `stride` apart.
float exact_sum(const float* first, std::size_t members, std::size_t stride) {
  // Where no addition in double loses anything, which is the rule, the double is exact and is rounded once.
  double sum = 0;
  bool exact = true;
  for (std::size_t i = 0; i < members; ++i) {
    const double value = first[i * stride];
    const double next = sum + value;
    const double back = next - sum;
    exact = exact && (sum - (next - back)) + (value - back) == 0;
    sum = next;
  }
  if (exact)
    return sum == 0 ? 0 : static_cast<float>(sum);
  double special = 0;
  wide_integer whole;
  for (std::size_t i = 0; i < members; ++i) {
    const auto value = first[i * stride];
    if (std::isfinite(value))
      whole.add(value);
    else
      special += value;
  }
  if (std::isnan(special))
    return std::numeric_limits<float>::quiet_NaN();
  return special != 0 ? static_cast<float>(special) : whole.rounded();
}

} // namespace

void sum_in_order(std::span<const float> parts, std::span<float> total) {
  if (total.empty())
    return;
  std::ranges::copy(parts.first(total.size()), total.begin());
  for (std::size_t from = total.size(); from < parts.size(); from += total.size())
    for (std::size_t i = 0; i < total.size(); ++i)
      total[i] += parts[from + i];
}

void sum_exactly(std::span<const float> parts, std::span<float> total) {
  if (total.empty())
    return;
  const auto members = parts.size() / total.size();
  for (std::size_t i = 0; i < total.size(); ++i)
    total[i] = exact_sum(parts.data() + i, members, total.size());
}

} // namespace dynamix::exchange
