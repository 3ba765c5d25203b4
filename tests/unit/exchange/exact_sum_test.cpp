#include "exchange/exact_sum.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace dynamix::exchange {
namespace {

template <typename Scalar>
std::vector<Scalar> digits_of(double value) {
  std::vector<Scalar> digits(exact_digits);
  split_into_digits(value, std::span(digits));
  return digits;
}

/// As an all-reduce does it: digit by digit, in the summands' element type and the given order.
template <typename Scalar>
double sum(const std::vector<double>& values) {
  std::vector<Scalar> sums(exact_digits);
  for (const double value : values) {
    const auto digits = digits_of<Scalar>(value);
    for (std::size_t i = 0; i < exact_digits; ++i)
      sums[i] += digits[i];
  }
  return join_digits(std::span<const Scalar>(sums));
}

template <typename Scalar>
class ExactSum : public testing::Test {};
using Scalars = testing::Types<float, double>;
TYPED_TEST_SUITE(ExactSum, Scalars);

TYPED_TEST(ExactSum, GivesANumberBackAsItWas) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> mantissas(-1, 1);
  std::uniform_int_distribution<int> exponents(-80, 144);
  for (int i = 0; i < 10'000; ++i) {
    const double value = std::ldexp(mantissas(random), exponents(random));
    if (std::abs(value) >= 0x1p-91) { // all of its 53 bits have a place
      ASSERT_EQ(sum<TypeParam>({value}), value);
    }
  }
  for (const double value : {0.0, 1.0, -1.0, 0x1p-144, -0x1p-144, std::nextafter(0x1p144, 0), -0x1.fffffp143, 4095.0,
                             4096.0, -4096.0, 1.0 / 3})
    EXPECT_EQ(sum<TypeParam>({value}), value);
  EXPECT_EQ(sum<TypeParam>({0x1p-145}), 0) << "below what has a place";
}

TYPED_TEST(ExactSum, LosesNothingWhereSummandsCancel) {
  EXPECT_EQ(sum<TypeParam>({1e40, 1, -1e40}), 1);
  EXPECT_EQ(sum<TypeParam>({0x1p100, 0x1p-100, -0x1p100}), 0x1p-100);
  EXPECT_EQ(sum<TypeParam>({0.1, 0.2, -0.1, -0.2}), 0);
  EXPECT_EQ(sum<TypeParam>({-0x1p100, -0x1p-100, 0x1p100}), -0x1p-100);
}

TYPED_TEST(ExactSum, RoundsOnceToTheNearestNumber) {
  // A tie goes to the even neighbour, unless something far below decides it.
  EXPECT_EQ(sum<TypeParam>({1, 0x1p-53}), 1);
  EXPECT_EQ(sum<TypeParam>({1, 0x1p-53, 0x1p-144}), 1 + 0x1p-52);
  EXPECT_EQ(sum<TypeParam>({-1, -0x1p-53, -0x1p-144}), -1 - 0x1p-52);
  EXPECT_EQ(sum<TypeParam>({1, 0x1p-53, -0x1p-144}), 1);
  EXPECT_EQ(sum<TypeParam>({1 + 0x1p-52, 0x1p-53}), 1 + 0x1p-51);
}

TYPED_TEST(ExactSum, EqualsThatInWholeNumbersForTheMostMembers) {
  __extension__ using wide = __int128;
  std::mt19937_64 random(2);
  std::uniform_int_distribution<std::int64_t> numbers(-(std::int64_t{1} << 53), std::int64_t{1} << 53);
  for (int repetition = 0; repetition < 20; ++repetition) {
    std::vector<double> values;
    wide expected = 0; // in units of 2^-60
    for (std::size_t i = 0; i < exact_members_max; ++i) {
      const auto number = numbers(random);
      const int shift = static_cast<int>(random() % 40);
      values.push_back(std::ldexp(static_cast<double>(number), shift - 60));
      expected += static_cast<wide>(number) << shift;
    }
    EXPECT_EQ(sum<TypeParam>(values), std::ldexp(static_cast<double>(expected), -60));
  }
  const std::vector<double> largest(exact_members_max, std::nextafter(0x1p144, 0));
  EXPECT_EQ(sum<TypeParam>(largest), 4096 * largest[0]) << "every digit is 4095";
}

TYPED_TEST(ExactSum, DoesNotDependOnTheOrder) {
  std::mt19937_64 random(3);
  std::vector<double> values;
  for (int i = 0; i < 33; ++i)
    values.push_back(std::ldexp(static_cast<double>(random()) - 0x1p63, static_cast<int>(random() % 100) - 120));
  const double expected = sum<TypeParam>(values);
  for (int repetition = 0; repetition < 100; ++repetition) {
    std::shuffle(values.begin(), values.end(), random);
    EXPECT_EQ(sum<TypeParam>(values), expected);
  }
}

TYPED_TEST(ExactSum, ShowsWhatIsInfiniteOrNoNumber) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(sum<TypeParam>({1, infinity}), infinity);
  EXPECT_EQ(sum<TypeParam>({-infinity, 1}), -infinity);
  EXPECT_EQ(sum<TypeParam>({0x1p144}), infinity) << "beyond the last digit";
  EXPECT_EQ(sum<TypeParam>({-0x1p200}), -infinity);
  EXPECT_TRUE(std::isnan(sum<TypeParam>({infinity, -infinity})));
  EXPECT_TRUE(std::isnan(sum<TypeParam>({1, std::nan("")})));
}

} // namespace
} // namespace dynamix::exchange
