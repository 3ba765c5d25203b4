#include "storage/percentiles.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace dynamix::storage {
namespace {

TEST(Percentiles, AreValuesByNearestRank) {
  std::vector<float> values;
  for (int i = 1; i <= 1000; ++i)
    values.push_back(static_cast<float>(i));
  std::ranges::shuffle(values, std::mt19937(1));
  const auto all = percentiles_of(values);
  EXPECT_EQ(all.p50, 500);
  EXPECT_EQ(all.p90, 900);
  EXPECT_EQ(all.p99, 990);
  EXPECT_EQ(all.max, 1000);
  EXPECT_EQ(all.count, 1000U);
}

TEST(Percentiles, OfFewValuesAreAmongThem) {
  EXPECT_EQ(percentiles_of<float>({}).count, 0U);
  const auto one = percentiles_of<float>({0.25F});
  EXPECT_EQ(one.p50, 0.25);
  EXPECT_EQ(one.p99, 0.25);
  const auto two = percentiles_of<float>({2, 1});
  EXPECT_EQ(two.p50, 1); // half of the values do not exceed it
  EXPECT_EQ(two.p90, 2);
}

} // namespace
} // namespace dynamix::storage
