#pragma once

/// Sums of doubles that are exact although an all-reduce adds up floats, in whatever order.
///
/// A number is written in digits of 12 bits with fixed places, from 2^-144 up to 2^144, each digit an integer below
/// 2^12 in magnitude with the number's sign. A float holds integers up to 2^24 exactly, so sums of up to 4,096 members'
/// digits are exact, and so is what they come to. (The accumulator of U. Kulisch, cut into pieces that a float can
/// add.)

#include <cstddef>
#include <span>

namespace dynamix::exchange {

/// Of one number.
inline constexpr std::size_t exact_digits = 24;
inline constexpr std::size_t exact_members_max = 4096;

/// `digits` has exact_digits elements, float or double. What of `value` lies below 2^-144 is cut off; from 2^144 on it
/// counts as infinite.
template <typename Scalar>
void split_into_digits(double value, std::span<Scalar> digits);

/// The number that (sums of) digits stand for, rounded once to the nearest double. Infinite or no number where a
/// summand was.
template <typename Scalar>
double join_digits(std::span<const Scalar> digits);

/// The same for several numbers, the digits of one after those of the other.
template <typename Scalar>
void split_into_digits(std::span<const double> values, std::span<Scalar> digits) {
  for (std::size_t i = 0; i < values.size(); ++i)
    split_into_digits(values[i], digits.subspan(i * exact_digits, exact_digits));
}
template <typename Scalar>
void join_digits(std::span<const Scalar> digits, std::span<double> values) {
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = join_digits(digits.subspan(i * exact_digits, exact_digits));
}

} // namespace dynamix::exchange
