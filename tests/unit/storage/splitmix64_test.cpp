#include "storage/splitmix64.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace dynamix::storage {
namespace {

TEST(Splitmix64, GivesThePublishedNumbers) {
  // The first outputs for the seed 1234567, as listed with the reference implementation on Rosetta Code.
  splitmix64 generator(1234567);
  EXPECT_EQ(generator.next(), 6457827717110365317U);
  EXPECT_EQ(generator.next(), 3203168211198807973U);
  EXPECT_EQ(generator.next(), 9817491932198370423U);
}

TEST(Splitmix64, DrawsBelowABoundEvenly) {
  splitmix64 generator(3);
  std::array<int, 7> seen{};
  constexpr int draws = 70000;
  for (int i = 0; i < draws; ++i)
    ++seen.at(generator.below(7));
  // Five standard deviations of a binomial count.
  for (const auto count : seen)
    EXPECT_NEAR(count, draws / 7, 5 * std::sqrt(draws / 7.0));
}

} // namespace
} // namespace dynamix::storage
