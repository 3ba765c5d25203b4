#include "policy/reward.hpp"
#include "samples.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace dynamix::policy {
namespace {

const cluster::reward weights{.alpha = 2, .beta = 0.5, .delta = 0.1, .eta = 0.01};

messages::window_report sample() {
  auto report = testing::make_report(0, 5, 256);
  report.training.accuracy = 0.8;
  report.training.iteration_seconds = 0.4;
  report.training.gradient_valid = true;
  report.training.sigma_norm = 3;
  report.training.sigma2_norm = 9;
  return report;
}

TEST(Reward, ForSgdMatchesHandComputedTerms) {
  const auto terms = compute_reward(sample(), 0.75, 0, weights, cluster::reward_kind::paper, false);
  EXPECT_DOUBLE_EQ(terms.accuracy, 0.8);
  EXPECT_NEAR(terms.gain, 0.1, 1e-12);  // 2 * (0.8 - 0.75)
  EXPECT_DOUBLE_EQ(terms.time, 0.2);    // 0.5 * 0.4
  EXPECT_NEAR(terms.batch, 0.3, 1e-12); // 0.1 * (log2(256) - 5)
  EXPECT_EQ(terms.noise, 0);
  EXPECT_NEAR(terms.total, 0.4, 1e-12); // 0.8 + 0.1 - 0.2 - 0.3
}

TEST(Reward, ForAnAdaptiveOptimiserSubtractsTheNoise) {
  const auto terms = compute_reward(sample(), 0.75, 0, weights, cluster::reward_kind::paper, true);
  EXPECT_NEAR(terms.noise, 0.12, 1e-12); // 0.01 * (9 + 3)
  EXPECT_NEAR(terms.total, 0.28, 1e-12);
}

TEST(Reward, HasNoNoiseTermWhileTheGradientStatisticsWarmUp) {
  auto report = sample();
  report.training.gradient_valid = false;
  EXPECT_EQ(compute_reward(report, 0.75, 0, weights, cluster::reward_kind::paper, true).noise, 0);
}

TEST(Reward, DoesNotPunishALossOfAccuracy) {
  const auto terms = compute_reward(sample(), 0.9, 0, weights, cluster::reward_kind::paper, false);
  EXPECT_EQ(terms.gain, 0);
  EXPECT_NEAR(terms.total, 0.3, 1e-12);
}

TEST(Reward, HasNoGainWithoutAWindowBefore) {
  EXPECT_EQ(compute_reward(sample(), -1, 0, weights, cluster::reward_kind::paper, false).gain, 0);
  EXPECT_NEAR(compute_reward(sample(), 0, 0, weights, cluster::reward_kind::paper, false).gain, 1.6,
              1e-12); // an accuracy of 0 is one
}

TEST(Reward, PaysForBatchesBelow32AndCounts0As1) {
  auto report = sample();
  report.batch = 8;
  EXPECT_NEAR(compute_reward(report, -1, 0, weights, cluster::reward_kind::paper, false).batch, -0.2, 1e-12);
  report.batch = 0;
  EXPECT_NEAR(compute_reward(report, -1, 0, weights, cluster::reward_kind::paper, false).batch, -0.5, 1e-12);
}

/// A worker that hung for a minute once earned -60 in one window, where accuracy is worth at most 1.
TEST(Reward, IsANumberWhateverIsReported) {
  constexpr auto nan = std::numeric_limits<double>::quiet_NaN();
  messages::window_report report{.batch = 32};
  report.training.accuracy = report.training.iteration_seconds = nan;
  report.training.sigma_norm = report.training.sigma2_norm = nan;
  report.training.gradient_valid = true;
  EXPECT_EQ(compute_reward(report, 0.5, 0, {}, cluster::reward_kind::paper, true).total, 0);
}

TEST(Reward, SaturatesWhereTheFormulaHasNoBound) {
  auto report = sample();
  const auto of = [&] { return compute_reward(report, 0.75, 0, weights, cluster::reward_kind::paper, true); };
  report.training.iteration_seconds = 10;
  EXPECT_DOUBLE_EQ(of().time, 5) << "the paper's formula up to here";
  report.training.iteration_seconds = 1e6;
  EXPECT_DOUBLE_EQ(of().time, 5);
  report.training.sigma_norm = 1e12;
  report.training.sigma2_norm = 1e24;
  EXPECT_DOUBLE_EQ(of().noise, 10);
  EXPECT_GT(of().total, -16);
}

} // namespace
} // namespace dynamix::policy
