#include "client/batch_shares.hpp"
#include "client/random.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace dynamix::client {
namespace {

using numbers = std::vector<std::uint32_t>;

numbers share(const member_batches& before, const numbers& members, std::uint32_t lowest = 1,
              std::uint32_t highest = 1024) {
  return share_batches(before, members, lowest, numbers(members.size(), highest));
}

TEST(BatchShares, StayAsTheyAreAmongTheSameMembers) {
  EXPECT_EQ(share({{0, 2, 5}, {7, 100, 33}}, {0, 2, 5}), (numbers{7, 100, 33}));
}

TEST(BatchShares, OfALostMemberGoToTheOthersInProportion) {
  EXPECT_EQ(share({{0, 1, 2}, {20, 40, 60}}, {0, 1}), (numbers{40, 80}));
  EXPECT_EQ(share({{0, 1, 2}, {32, 32, 32}}, {1}), (numbers{96}));
  EXPECT_EQ(share({{0, 1, 2}, {10, 10, 9}}, {0, 1}), (numbers{15, 14})); // the lower rank of two halves
}

TEST(BatchShares, GiveANewcomerTheMean) {
  EXPECT_EQ(share({{0, 1}, {30, 60}}, {0, 1, 2}), (numbers{20, 40, 30}));
  EXPECT_EQ(share({{1}, {96}}, {0, 1, 2}), (numbers{32, 32, 32}));
  EXPECT_EQ(share({{0, 1}, {30, 60}}, {2, 3, 4}), (numbers{30, 30, 30})); // nobody stays
}

TEST(BatchShares, StayEqualHoweverOftenMembersComeAndGo) {
  splitmix64 random(7);
  member_batches now{numbers(64), numbers(64, 8)};
  std::iota(now.members.begin(), now.members.end(), 0U);
  for (int generation = 0; generation < 200; ++generation) {
    numbers members;
    for (std::uint32_t rank = 0; rank < 64; ++rank)
      if (random.below(3) != 0)
        members.push_back(rank);
    now = {members, share(now, members)};
    EXPECT_EQ(std::accumulate(now.batches.begin(), now.batches.end(), 0U), 512U);
    ASSERT_LE(std::ranges::max(now.batches) - std::ranges::min(now.batches), 1U) << "generation " << generation;
  }
}

TEST(BatchShares, KeepToTheBoundsAndLeaveTheRestToTheOthers) {
  EXPECT_EQ(share_batches({{0, 1, 2}, {60, 30, 90}}, numbers{0, 1}, 1, numbers{100, 1000}), (numbers{100, 80}));
  EXPECT_EQ(share({{0, 1, 2}, {8, 80, 32}}, {0, 1}, 32), (numbers{32, 88}));
  EXPECT_EQ(share({{0, 1, 2}, {60, 60, 60}}, {0, 1}, 1, 64), (numbers{64, 64})) << "more than the bounds allow";
  EXPECT_EQ(share({{0}, {60}}, {0, 1, 2}, 32), (numbers{32, 32, 32})) << "less than the bounds allow";
  EXPECT_EQ(share_batches({{0, 1, 2}, {4, 8, 200}}, numbers{0, 1, 2, 3}, 8, numbers{4, 8, 200, 200}),
            (numbers{4, 8, 148, 52}))
      << "a limit below the lowest is one member's alone";
  EXPECT_EQ(share({{0, 1}, {0, 0}}, {0, 1}, 0), (numbers{0, 0}));
  EXPECT_EQ(share({{0, 1, 2}, {0, 0, 9}}, {0, 1}, 0), (numbers{5, 4})) << "who had samples is gone";
}

TEST(BatchShares, OfTheLargestClusterDoNotOverflow) {
  numbers members(4096);
  std::iota(members.begin(), members.end(), 0U);
  const numbers batches(4096, 1U << 20U);
  EXPECT_EQ(share({members, batches}, members, 32, 1U << 20U), batches);
  members.pop_back();
  EXPECT_EQ(share({members, numbers(4095, 1U << 19U)}, members, 32, 1U << 20U), numbers(4095, 1U << 19U));
}

/// Slow and in floating point: the shares lambda * w_i inside of the bounds that add up to the total.
std::vector<double> reference(const std::vector<double>& weights, double total, double lowest, const numbers& highest) {
  std::vector<double> shares(weights.size());
  double low = 0;
  double high = 1e12;
  for (int i = 0; i < 200; ++i) {
    const double lambda = (low + high) / 2;
    double sum = 0;
    for (std::size_t m = 0; m < weights.size(); ++m)
      sum += shares[m] = std::clamp(lambda * weights[m], lowest, static_cast<double>(highest[m]));
    (sum < total ? low : high) = lambda;
  }
  return shares;
}

TEST(BatchShares, AreTheProportionalOnesToASampleAndAddUpToTheGlobalBatch) {
  splitmix64 random(4);
  for (int round = 0; round < 20000; ++round) {
    member_batches before;
    numbers members;
    numbers highest;
    const std::uint32_t lowest = 1 + random.below(40);
    double stayers = 0;
    double stayers_sum = 0;
    std::uint32_t smallest = 1U << 20U;
    std::uint32_t largest = 0;
    std::vector<double> weights;
    for (std::uint32_t rank = 0; rank < 8; ++rank) {
      const bool was = random.below(3) != 0;
      if (was) {
        before.members.push_back(rank);
        before.batches.push_back(lowest + random.below(200));
      }
      if (random.below(3) == 0)
        continue;
      members.push_back(rank);
      highest.push_back(lowest + random.below(300));
      weights.push_back(was ? before.batches.back() : -1.0);
      stayers += was ? 1 : 0;
      stayers_sum += was ? before.batches.back() : 0;
      smallest = was ? std::min(smallest, before.batches.back()) : smallest;
      largest = was ? std::max(largest, before.batches.back()) : largest;
    }
    if (members.empty() || before.members.empty())
      continue;
    for (auto& weight : weights)
      weight = stayers == 0 || largest - smallest <= 1 ? 1 : weight >= 0 ? weight : stayers_sum / stayers;
    const auto wanted = std::accumulate(before.batches.begin(), before.batches.end(), 0.0);
    const double most = std::accumulate(highest.begin(), highest.end(), 0.0);
    const double total = std::clamp(wanted, lowest * static_cast<double>(members.size()), most);
    const auto got = share_batches(before, members, lowest, highest);
    EXPECT_EQ(std::accumulate(got.begin(), got.end(), 0.0), total);
    const auto exact = reference(weights, total, lowest, highest);
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_LT(std::abs(got[i] - exact[i]), 1.0001) << "round " << round;
      EXPECT_GE(got[i], lowest);
      EXPECT_LE(got[i], highest[i]);
    }
    ASSERT_FALSE(HasFailure());
  }
}

} // namespace
} // namespace dynamix::client
