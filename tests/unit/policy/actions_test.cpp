#include "policy/actions.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace dynamix::policy {
namespace {

const cluster::batch limits{.initial = 64, .lowest = 32, .highest = 1024};

TEST(Actions, AddToTheBatchInsideTheLimits) {
  EXPECT_EQ(apply_action(64, 100, limits).batch, 164U);
  EXPECT_FALSE(apply_action(64, 100, limits).clamped);
  EXPECT_EQ(apply_action(64, 0, limits).batch, 64U);
  EXPECT_EQ(apply_action(132, -100, limits).batch, 32U);
  EXPECT_FALSE(apply_action(132, -100, limits).clamped);
}

TEST(Actions, ClampAtTheLimitsAndSaySo) {
  EXPECT_EQ(apply_action(1000, 25, limits).batch, 1024U);
  EXPECT_TRUE(apply_action(1000, 25, limits).clamped);
  EXPECT_EQ(apply_action(64, -100, limits).batch, 32U);
  EXPECT_TRUE(apply_action(64, -100, limits).clamped);
}

TEST(Actions, SurviveTheLargestNumbers) {
  const cluster::batch wide{.initial = 1, .lowest = 1, .highest = 1048576};
  EXPECT_EQ(apply_action(1048576, 2147483647, wide).batch, 1048576U);
  EXPECT_EQ(apply_action(4294967295U, -2147483647 - 1, wide).batch, 1048576U);
  EXPECT_EQ(apply_action(0, -2147483647 - 1, wide).batch, 1U);
}

TEST(DrawAction, FollowsTheProbabilities) {
  const std::array<float, 5> probabilities = {0.1F, 0.0F, 0.2F, 0.65F, 0.05F};
  auto generator = make_generator(1, random_purpose::actions);
  constexpr int draws = 200000;
  std::array<int, 5> counts{};
  for (int i = 0; i < draws; ++i)
    ++counts[draw_action(probabilities, generator)];
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double expected = draws * static_cast<double>(probabilities[i]);
    const double deviation = std::sqrt(expected * (1 - static_cast<double>(probabilities[i])));
    EXPECT_NEAR(counts[i], expected, 4 * deviation + 1e-9) << "action " << i;
  }
}

TEST(DrawAction, NeedsNoSumOfOneAndNeverTakesTheImpossible) {
  const std::array<float, 4> probabilities = {0.0F, 0.3F, 0.1F, 0.0F};
  auto generator = make_generator(2, random_purpose::actions);
  std::array<int, 4> counts{};
  for (int i = 0; i < 40000; ++i)
    ++counts[draw_action(probabilities, generator)];
  EXPECT_EQ(counts[0] + counts[3], 0);
  EXPECT_NEAR(counts[1], 30000, 4 * std::sqrt(40000 * 0.75 * 0.25));
}

TEST(BestAction, IsTheLowestOfTheMostProbable) {
  EXPECT_EQ(best_action(std::array{0.1F, 0.4F, 0.4F, 0.1F}), 1U);
  EXPECT_EQ(best_action(std::array{0.5F, 0.4F, 0.1F}), 0U);
  EXPECT_EQ(best_action(std::array{0.1F, 0.2F, 0.7F}), 2U);
}

TEST(MakeGenerator, GivesEachSeedAndPurposeItsOwnStream) {
  auto actions = make_generator(1, random_purpose::actions);
  auto again = make_generator(1, random_purpose::actions);
  auto minibatches = make_generator(1, random_purpose::minibatches);
  auto high_bits = make_generator(1 + (1ULL << 32), random_purpose::actions);
  const auto first = actions();
  EXPECT_EQ(again(), first);
  EXPECT_NE(minibatches(), first);
  EXPECT_NE(high_bits(), first);
}

TEST(DrawBelow, IsEvenAndBelowTheLimit) {
  auto generator = make_generator(3, random_purpose::minibatches);
  std::array<int, 7> counts{};
  for (int i = 0; i < 70000; ++i)
    ++counts.at(draw_below(7, generator));
  for (const int count : counts)
    EXPECT_NEAR(count, 10000, 4 * std::sqrt(10000 * 6.0 / 7));
  EXPECT_EQ(draw_below(1, generator), 0U);
}

} // namespace
} // namespace dynamix::policy
