#include "exchange/exact_sum.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

namespace dynamix::exchange {

namespace {

constexpr int digit_bits = 12;
constexpr int lowest_exponent = -144; ///< of the first digit's unit

__extension__ using wide = __int128;

using integer_digits = std::array<std::int64_t, exact_digits>;

/// Makes every digit but the last one lie in [0, 2^12); the last one has the sign of the whole.
void carry(integer_digits& digits) {
  for (std::size_t i = 0; i + 1 < exact_digits; ++i) {
    digits[i + 1] += digits[i] >> digit_bits; // rounds down
    digits[i] &= (1 << digit_bits) - 1;
  }
}

} // namespace

template <typename Scalar>
void split_into_digits(double value, std::span<Scalar> digits) {
  std::ranges::fill(digits, Scalar{0});
  if (!(std::abs(value) < std::ldexp(1.0, lowest_exponent + digit_bits * static_cast<int>(exact_digits)))) {
    digits.back() = static_cast<Scalar>(std::isnan(value) ? value : std::copysign(HUGE_VAL, value));
    return;
  }
  for (std::size_t i = exact_digits; i-- > 0 && value != 0;) {
    const int exponent = lowest_exponent + digit_bits * static_cast<int>(i);
    // Exact: scaling by a power of two, and what is left has no more bits than there were.
    const double digit = std::trunc(std::ldexp(value, -exponent));
    digits[i] = static_cast<Scalar>(digit);
    value -= std::ldexp(digit, exponent);
  }
}

template <typename Scalar>
double join_digits(std::span<const Scalar> digits) {
  if (!std::isfinite(digits.back()))
    return static_cast<double>(digits.back());
  integer_digits whole;
  std::ranges::transform(digits, whole.begin(), [](Scalar digit) { return static_cast<std::int64_t>(digit); });
  carry(whole);
  const bool negative = whole.back() < 0;
  if (negative) {
    std::ranges::transform(digits, whole.begin(), [](Scalar digit) { return -static_cast<std::int64_t>(digit); });
    carry(whole);
  }
  std::size_t top = exact_digits - 1;
  while (top > 0 && whole[top] == 0)
    --top;
  // 8 digits are 96 bits or a little more, of which 85 at least count: the conversion rounds them to 53. What lies
  // below can only decide a tie, for which one bit stands.
  wide leading = 0;
  std::size_t i = top + 1;
  for (int taken = 0; taken < 8; ++taken)
    leading = (leading << digit_bits) + (i > 0 ? whole[--i] : 0);
  const int exponent = lowest_exponent + digit_bits * (static_cast<int>(top) - 7);
  if (std::any_of(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(i), [](auto digit) { return digit != 0; }))
    leading |= 1;
  const double magnitude = std::ldexp(static_cast<double>(leading), exponent);
  return negative ? -magnitude : magnitude;
}

template void split_into_digits<float>(double, std::span<float>);
template void split_into_digits<double>(double, std::span<double>);
template double join_digits<float>(std::span<const float>);
template double join_digits<double>(std::span<const double>);

} // namespace dynamix::exchange
