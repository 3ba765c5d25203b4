#include "client/kernels.hpp"
#include "client/random.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace dynamix::client {
namespace {

template <class Scalar>
std::vector<Scalar> random_values(std::size_t count) {
  storage::splitmix64 random(count + 1);
  std::vector<Scalar> values(count);
  for (auto& value : values)
    value = static_cast<Scalar>((random.below(2000001) - 1e6) / 3e5);
  return values;
}

template <class Scalar>
void expect_the_reference() {
  for (std::size_t count = 0; count < 200; ++count) {
    const auto before = random_values<Scalar>(count);
    long double square = 0;
    for (const auto value : before)
      square += static_cast<long double>(value) * value;
    auto scaled = before;
    const double factor = 0.3;
    const double sum = scale(scaled.data(), count, factor);
    EXPECT_NEAR(sum, static_cast<double>(square), 1e-13 * static_cast<double>(square));
    EXPECT_EQ(squares(before.data(), count), sum);
    for (std::size_t i = 0; i < count; ++i)
      EXPECT_EQ(scaled[i], static_cast<Scalar>(static_cast<double>(before[i]) * factor));
  }
}

TEST(Kernels, ScaleAndSquareAsTheReferenceDoes) {
  expect_the_reference<float>();
  expect_the_reference<double>();
}

TEST(Kernels, WriteZerosWhateverTheValuesAre) {
  std::vector<float> values(19, std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(scale(values.data(), values.size(), 0), 0);
  EXPECT_EQ(values, std::vector<float>(19, 0.0F));
}

TEST(Kernels, ShowAnInfinityInTheSum) {
  std::vector<double> values(9, 1);
  values[4] = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(std::isinf(scale(values.data(), values.size(), 0.5)));
}

} // namespace
} // namespace dynamix::client
