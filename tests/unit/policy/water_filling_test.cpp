#include "cluster/cluster_file.hpp"
#include "policy/water_filling.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

namespace dynamix::policy {
namespace {

using ::testing::ElementsAre;
using batches = std::vector<std::uint32_t>;

std::uint64_t sum(const batches& values) {
  return std::accumulate(values.begin(), values.end(), std::uint64_t{0});
}

/// The same limits for every worker.
batches fill(std::uint64_t total, std::span<const capacity> workers, const cluster::batch& limits) {
  return water_fill(total, workers, limits.lowest, batches(workers.size(), limits.highest));
}
batches in_proportion(std::uint64_t total, std::span<const double> weights, const cluster::batch& limits) {
  return split_in_proportion(total, weights, limits.lowest, batches(weights.size(), limits.highest));
}

/// Step times of one worker: entry b-1 is t(b).
using table = std::vector<double>;

capacity inverse(const table& times) {
  return
      [times](double seconds) { return static_cast<double>(std::ranges::upper_bound(times, seconds) - times.begin()); };
}

double slowest(const std::vector<table>& times, const batches& split) {
  double longest = 0;
  for (std::size_t i = 0; i < split.size(); ++i)
    longest = std::max(longest, times[i][split[i] - 1]);
  return longest;
}

/// Tries every split of `total`.
double shortest_possible(const std::vector<table>& times, std::uint64_t total, const cluster::batch& limits) {
  auto best = std::numeric_limits<double>::infinity();
  batches split(times.size(), limits.lowest);
  while (true) {
    if (sum(split) == total)
      best = std::min(best, slowest(times, split));
    std::size_t i = 0;
    while (i < split.size() && split[i] == limits.highest)
      split[i++] = limits.lowest;
    if (i == split.size())
      return best;
    ++split[i];
  }
}

TEST(WaterFilling, IsAsFastAsTheBestOfAllSplits) {
  std::mt19937_64 generator(3);
  const cluster::batch limits{.initial = 2, .lowest = 2, .highest = 7};
  for (int trial = 0; trial < 100; ++trial) {
    std::vector<table> times(1 + generator() % 4);
    std::vector<capacity> workers;
    for (auto& each : times) {
      double seconds = 0.01 * static_cast<double>(1 + generator() % 20);
      for (std::uint32_t b = 1; b <= limits.highest; ++b)
        each.push_back(seconds += 0.01 * static_cast<double>(generator() % 4)); // with flat pieces
      workers.push_back(inverse(each));
    }
    for (auto total = limits.lowest * times.size(); total <= limits.highest * times.size(); ++total) {
      const auto split = fill(total, workers, limits);
      ASSERT_EQ(sum(split), total);
      ASSERT_TRUE(std::ranges::all_of(split, [&](auto b) { return b >= limits.lowest && b <= limits.highest; }));
      ASSERT_DOUBLE_EQ(slowest(times, split), shortest_possible(times, total, limits)) << "trial " << trial;
    }
  }
}

TEST(WaterFilling, DealsAFlatPieceEvenly) {
  const capacity flat = [](double seconds) { return seconds < 0.1 ? 0 : 1000.0; };
  const std::vector<capacity> workers(3, flat);
  EXPECT_THAT(fill(301, workers, {.initial = 1, .lowest = 1, .highest = 1024}), ElementsAre(101, 100, 100));
}

TEST(WaterFilling, TakesTheNearestTotalThatTheLimitsAllow) {
  const std::vector<double> weights = {1, 3};
  const cluster::batch limits{.initial = 32, .lowest = 32, .highest = 128};
  EXPECT_THAT(in_proportion(10, weights, limits), ElementsAre(32, 32));
  EXPECT_THAT(in_proportion(9999, weights, limits), ElementsAre(128, 128));
  EXPECT_TRUE(fill(64, {}, limits).empty());
}

TEST(WaterFilling, FillsTheOthersWhereAWorkerIsInfinitelySlow) {
  const std::vector<capacity> workers = {[](double) { return 0.0; }, [](double seconds) { return 100 * seconds; }};
  EXPECT_THAT(fill(128, workers, {.initial = 64, .lowest = 16, .highest = 1024}), ElementsAre(16, 112));
  EXPECT_THAT(fill(128, workers, {.initial = 64, .lowest = 16, .highest = 100}), ElementsAre(28, 100));
}

TEST(WaterFilling, GivesNobodyMoreThanItsOwnLimit) {
  const std::vector<capacity> workers(3, [](double seconds) { return 100 * seconds; });
  const batches highest = {20, 1000, 1000};
  EXPECT_THAT(water_fill(300, workers, 1, highest), ElementsAre(20, 140, 140));
  EXPECT_THAT(water_fill(5000, workers, 1, highest), ElementsAre(20, 1000, 1000));
}

/// Times that a liar reports: what a capacity must not be.
std::vector<capacity> broken_capacities(std::mt19937_64& generator) {
  static const std::vector<capacity> kinds = {
      [](double seconds) { return 100 * seconds; },
      [](double) { return std::numeric_limits<double>::quiet_NaN(); },
      [](double) { return -std::numeric_limits<double>::infinity(); },
      [](double seconds) { return 1 / seconds; }, // falls
      [](double seconds) { return seconds < 1 ? std::numeric_limits<double>::infinity() : 0; },
      [](double seconds) { return std::sin(1e9 * seconds) * 1e9; },
      [](double) { return std::numeric_limits<double>::denorm_min(); },
      [](double) { return std::numeric_limits<double>::max(); },
  };
  std::vector<capacity> workers;
  for (auto more = 1 + generator() % 6; more > 0; --more)
    workers.push_back(kinds[generator() % kinds.size()]);
  return workers;
}

TEST(WaterFilling, StaysWithinTheLimitsAndAddsUpWhateverTheCapacitiesAre) {
  std::mt19937_64 generator(7);
  for (int trial = 0; trial < 3000; ++trial) {
    const auto workers = broken_capacities(generator);
    const auto lowest = static_cast<std::uint32_t>(generator() % 64);
    batches highest;
    for (std::size_t i = 0; i < workers.size(); ++i)
      highest.push_back(static_cast<std::uint32_t>(generator() % 1024)); // some are below the lowest
    const auto total = generator() % 8192;
    const auto filled = water_fill(total, workers, lowest, highest);
    ASSERT_EQ(filled.size(), workers.size());
    std::uint64_t most = 0;
    for (std::size_t i = 0; i < filled.size(); ++i) {
      ASSERT_GE(filled[i], lowest);
      ASSERT_LE(filled[i], std::max(lowest, highest[i]));
      most += std::max(lowest, highest[i]);
    }
    ASSERT_EQ(sum(filled), std::clamp<std::uint64_t>(total, lowest * workers.size(), most)) << "trial " << trial;
  }
}

TEST(SplitInProportion, GivesTheLeastToWhoeverHasNoWeight) {
  constexpr auto nan = std::numeric_limits<double>::quiet_NaN();
  const cluster::batch limits{.initial = 64, .lowest = 16, .highest = 1024};
  EXPECT_THAT(in_proportion(128, std::vector<double>{nan, 1}, limits), ElementsAre(16, 112));
  EXPECT_THAT(in_proportion(128, std::vector<double>{-1e300, 1}, limits), ElementsAre(16, 112));
  EXPECT_EQ(sum(in_proportion(128, std::vector<double>{nan, nan}, limits)), 128U);
}

TEST(SplitInProportion, FollowsTheWeightsWithinTheLimits) {
  const std::vector<double> weights = {4, 2, 1, 1};
  EXPECT_THAT(in_proportion(256, weights, {.initial = 64, .lowest = 1, .highest = 1024}), ElementsAre(128, 64, 32, 32));
  EXPECT_THAT(in_proportion(256, weights, {.initial = 64, .lowest = 40, .highest = 1024}),
              ElementsAre(118, 58, 40, 40)); // 176 in 2:1 is 117.3 and 58.7; 118 : 58 is as fast as 117 : 59
  EXPECT_THAT(in_proportion(256, weights, {.initial = 64, .lowest = 1, .highest = 100}), ElementsAre(100, 78, 39, 39));
}

TEST(SplitInProportion, AddsUpForAnyWeights) {
  std::mt19937_64 generator(5);
  const cluster::batch limits{.initial = 64, .lowest = 32, .highest = 1024};
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<double> weights(1 + generator() % 64);
    for (auto& weight : weights)
      weight = std::uniform_real_distribution<double>(1e-6, 1e6)(generator);
    const auto total = (32 + generator() % 993) * weights.size();
    ASSERT_EQ(sum(in_proportion(total, weights, limits)), total);
  }
}

} // namespace
} // namespace dynamix::policy
