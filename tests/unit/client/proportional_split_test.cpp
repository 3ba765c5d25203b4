#include "client/proportional_split.hpp"
#include "client/random.hpp"

#include <gtest/gtest.h>

#include <numeric>

namespace dynamix::client {
namespace {

using parts = std::vector<std::uint64_t>;
using weights = std::vector<std::uint32_t>;

TEST(ProportionalSplit, GivesTheLargestRemaindersWhatIsLeft) {
  // Quotas 2.5, 1.25, 1.25: 2, 1, 1 and the one that is left goes to the largest remainder.
  EXPECT_EQ(split_in_proportion(5, weights{64, 32, 32}), (parts{3, 1, 1}));
  // Quotas 10/3 each: of equal remainders the first wins.
  EXPECT_EQ(split_in_proportion(10, weights{1, 1, 1}), (parts{4, 3, 3}));
  EXPECT_EQ(split_in_proportion(1, weights{16, 64, 64, 256}), (parts{0, 0, 0, 1}));
}

TEST(ProportionalSplit, GivesAWeightOfZeroNothing) {
  EXPECT_EQ(split_in_proportion(7, weights{0, 3, 0}), (parts{0, 7, 0}));
  EXPECT_EQ(split_in_proportion(7, weights{0, 0}), (parts{0, 0}));
  EXPECT_EQ(split_in_proportion(7, weights{}), parts{});
}

TEST(ProportionalSplit, AddsUpStaysWithinOneOfTheQuotaAndWithinTheWeights) {
  splitmix64 random(7);
  for (int round = 0; round < 500; ++round) {
    weights given(1 + random.below(8));
    for (auto& weight : given)
      weight = random.below(1025);
    const auto sum = std::accumulate(given.begin(), given.end(), std::uint64_t{0});
    const std::uint64_t total = random.below(static_cast<std::uint32_t>(sum + 1));
    const auto dealt = split_in_proportion(total, given);
    ASSERT_EQ(std::accumulate(dealt.begin(), dealt.end(), std::uint64_t{0}), total);
    for (std::size_t i = 0; i < given.size(); ++i) {
      ASSERT_LE(dealt[i], given[i]);
      if (sum > 0) {
        ASSERT_NEAR(static_cast<double>(dealt[i]), static_cast<double>(total * given[i]) / static_cast<double>(sum), 1);
      }
    }
  }
}

TEST(ProportionalSplit, LaysRangesEndToEnd) {
  EXPECT_EQ(split_range({100, 10}, weights{3, 0, 2}), (std::vector<index_range>{{100, 6}, {106, 0}, {106, 4}}));
}

} // namespace
} // namespace dynamix::client
