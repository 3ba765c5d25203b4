#include "client/learning_rate.hpp"
#include "messages/early_steps.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace dynamix::client {
namespace {

using rule = messages::rate_rule;

TEST(LearningRate, FollowsTheSimpleRulesAndCountsSamples) {
  learning_rate constant(rule::constant, 0.1, 256, false);
  learning_rate linear(rule::linear, 0.1, 256, false);
  learning_rate square_root(rule::square_root, 0.1, 256, false);
  EXPECT_DOUBLE_EQ(constant.advance(1024, {}).learning_rate, 0.1);
  EXPECT_DOUBLE_EQ(linear.advance(1024, {}).learning_rate, 0.4);
  EXPECT_DOUBLE_EQ(linear.advance(64, {}).learning_rate, 0.025);
  EXPECT_DOUBLE_EQ(square_root.advance(1024, {}).learning_rate, 0.2);
  EXPECT_DOUBLE_EQ(square_root.advance(64, {}).learning_rate, 0.05);
  EXPECT_DOUBLE_EQ(constant.progress(), 4);
  EXPECT_DOUBLE_EQ(linear.progress(), 4.25);
}

TEST(Adascale, GivesTheGainWorkedOutByHand) {
  // B0 = 100, tr = 300 so s2 = 3; m2 = 1. S = 4: r = (3+1)/(3/4+1) = 16/7.
  learning_rate scaled(rule::adascale, 0.1, 100, false);
  auto step = scaled.advance(400, {.valid = true, .trace = 300, .gradient_square = 1});
  EXPECT_DOUBLE_EQ(step.gain, 16.0 / 7);
  EXPECT_DOUBLE_EQ(step.learning_rate, 1.6 / 7);
  EXPECT_DOUBLE_EQ(scaled.progress(), 16.0 / 7);

  // The second step at S = 2.5, no whole number: the averages decay with 0.9975 and are divided by their weight.
  // The first sample entered with 1 - 0.996 = 0.004; weight = 0.004*0.9975 + 0.0025.
  const double weight = 0.004 * 0.9975 + 0.0025;
  const double trace = (0.004 * 0.9975 * 300 + 0.0025 * 100) / weight;
  const double square = (0.004 * 0.9975 * 1 + 0.0025 * 3) / weight;
  const double gain = (trace / 100 + square) / (trace / 250 + square);
  step = scaled.advance(250, {.valid = true, .trace = 100, .gradient_square = 3});
  EXPECT_NEAR(step.gain, gain, 1e-12);
  EXPECT_NEAR(scaled.progress(), 16.0 / 7 + gain, 1e-12);
}

TEST(Adascale, ShrinksTheRateBelowTheBaseBatch) {
  // S = 1/2: r = (3+1)/(6+1).
  learning_rate scaled(rule::adascale, 0.1, 100, false);
  scaled.restore({.progress = 2 * messages::early_steps, .trace = {}, .gradient_square = {}});
  EXPECT_DOUBLE_EQ(scaled.advance(50, {.valid = true, .trace = 300, .gradient_square = 1}).gain, 4.0 / 7);
}

/// Measured noise says the opposite of what a small batch is worth there.
TEST(Adascale, KeepsTheBaseRateBelowTheBaseBatchInTheFirstSteps) {
  const noise_sample seen{.valid = true, .trace = 300, .gradient_square = 1};
  learning_rate scaled(rule::adascale, 0.1, 100, false);
  for (std::uint64_t step = 0; step < messages::early_steps; ++step)
    EXPECT_DOUBLE_EQ(scaled.advance(50, step == 0 ? noise_sample{} : seen).learning_rate, 0.1);
  EXPECT_DOUBLE_EQ(scaled.progress(), messages::early_steps);
  while (scaled.progress() < 2 * messages::early_steps) {
    const double counted = scaled.progress() / messages::early_steps - 1;
    EXPECT_NEAR(scaled.advance(50, seen).gain, 1 + counted * (4.0 / 7 - 1), 1e-12);
  }
  EXPECT_DOUBLE_EQ(scaled.advance(50, seen).gain, 4.0 / 7);
}

/// With noise alone, and without a single sample, the formula says S: the rate comes down to that slowly, too.
TEST(Adascale, LowersTheRateSlowlyBehindTheFirstSteps) {
  for (const auto& seen : {noise_sample{}, noise_sample{.valid = true, .trace = 300, .gradient_square = -1}}) {
    learning_rate scaled(rule::adascale, 0.1, 100, false);
    double before = 1;
    while (scaled.progress() < 2 * messages::early_steps) {
      const double gain = scaled.advance(25, seen).gain;
      EXPECT_LE(gain, before);
      EXPECT_GT(gain, 0.97 * before);
      before = gain;
    }
    EXPECT_DOUBLE_EQ(scaled.advance(25, seen).gain, 0.25);
  }
}

TEST(Adascale, KeepsTheBaseRateAtTheBaseBatch) {
  learning_rate scaled(rule::adascale, 0.1, 100, false);
  EXPECT_DOUBLE_EQ(scaled.advance(100, {}).learning_rate, 0.1);
  EXPECT_DOUBLE_EQ(scaled.advance(100, {.valid = true, .trace = 300, .gradient_square = 1}).learning_rate, 0.1);
}

TEST(Adascale, TakesTheRootOfTheGainForAdaptiveOptimisers) {
  learning_rate scaled(rule::adascale, 0.1, 100, true);
  const auto step = scaled.advance(400, {.valid = true, .trace = 300, .gradient_square = 1});
  EXPECT_DOUBLE_EQ(step.gain, 16.0 / 7);
  EXPECT_DOUBLE_EQ(step.learning_rate, 0.1 * std::sqrt(16.0 / 7));
  EXPECT_DOUBLE_EQ(scaled.progress(), 16.0 / 7);
}

TEST(Adascale, StaysBetweenNoNoiseAndAllNoise) {
  learning_rate quiet(rule::adascale, 0.1, 100, false);
  EXPECT_DOUBLE_EQ(quiet.advance(800, {.valid = true, .trace = 0, .gradient_square = 1}).gain, 1);
  learning_rate negative_trace(rule::adascale, 0.1, 100, false);
  EXPECT_DOUBLE_EQ(negative_trace.advance(800, {.valid = true, .trace = -5, .gradient_square = 1}).gain, 1);
  learning_rate noisy(rule::adascale, 0.1, 100, false);
  EXPECT_DOUBLE_EQ(noisy.advance(800, {.valid = true, .trace = 300, .gradient_square = -1}).gain, 8);
}

TEST(Adascale, IsCarefulWhileItKnowsNothing) {
  learning_rate scaled(rule::adascale, 0.1, 100, false);
  EXPECT_DOUBLE_EQ(scaled.advance(800, {}).gain, 1);
  scaled.restore({.progress = 2 * messages::early_steps, .trace = {}, .gradient_square = {}});
  EXPECT_DOUBLE_EQ(scaled.advance(50, {}).gain, 0.5);
}

TEST(Adascale, ForgetsWithinAStepAtAThousandFoldBatch) {
  learning_rate scaled(rule::adascale, 0.1, 1, false);
  scaled.advance(2000, {.valid = true, .trace = 1e9, .gradient_square = 1});
  // Decay max(0, 1 - 2) = 0: only the newest sample counts. r = (1+1)/(1/2000+1).
  EXPECT_DOUBLE_EQ(scaled.advance(2000, {.valid = true, .trace = 1, .gradient_square = 1}).gain, 2 / (1.0 / 2000 + 1));
}

TEST(Adascale, GoesOnFromASavedStateBitForBit) {
  learning_rate whole(rule::adascale, 0.1, 100, false);
  for (int step = 1; step < 30; ++step)
    whole.advance(37 * step, {.valid = true, .trace = 200.0 + step, .gradient_square = 1.0 / step});
  learning_rate resumed(rule::adascale, 0.1, 100, false);
  resumed.restore(whole.state());
  for (int step = 1; step < 30; ++step) {
    const noise_sample sample{.valid = true, .trace = 100.0 / step, .gradient_square = 2};
    ASSERT_EQ(whole.advance(400, sample).learning_rate, resumed.advance(400, sample).learning_rate);
    ASSERT_EQ(whole.state(), resumed.state());
  }
}

} // namespace
} // namespace dynamix::client
