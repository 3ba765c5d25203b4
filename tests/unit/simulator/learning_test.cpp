#include "simulator/learning.hpp"
#include "simulator/workload.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace dynamix::simulator {
namespace {

using cluster::learning_rate_rule;

constexpr double phi = 300;
// B0 = 100, B = 400: S = 4, r = (3 + 1)/(0.75 + 1).
constexpr double ideal_gain = 4 / 1.75;

learning of(learning_rate_rule rule, bool adaptive = false) {
  return {.rule = rule, .adaptive = adaptive, .initial_batch = 100, .reference_batch = 200};
}

TEST(Learning, MakesPolluxProgressAtTheIdealRate) {
  const auto adascale = of(learning_rate_rule::adascale);
  EXPECT_DOUBLE_EQ(adascale.efficiency(phi, 400), 500.0 / 700.0);
  EXPECT_DOUBLE_EQ(adascale.efficiency(phi, 200), 1);
  EXPECT_DOUBLE_EQ(of(learning_rate_rule::adascale, true).efficiency(phi, 400), 500.0 / 700.0);
}

TEST(Learning, FollowsTheRuleOfTheLearningRate) {
  EXPECT_DOUBLE_EQ(of(learning_rate_rule::adascale).gain(phi, 400), ideal_gain);
  EXPECT_DOUBLE_EQ(of(learning_rate_rule::adascale).rate_factor(phi, 400), ideal_gain);
  EXPECT_DOUBLE_EQ(of(learning_rate_rule::adascale, true).rate_factor(phi, 400), std::sqrt(ideal_gain));
  EXPECT_DOUBLE_EQ(of(learning_rate_rule::constant).rate_factor(phi, 400), 1);
  EXPECT_DOUBLE_EQ(of(learning_rate_rule::linear).rate_factor(phi, 400), 4);
  EXPECT_DOUBLE_EQ(of(learning_rate_rule::square_root).rate_factor(phi, 400), 2);
}

TEST(Learning, LosesWhatARateBelowTheIdealOneLoses) {
  constexpr double pollux = 500.0 / 700.0;
  EXPECT_DOUBLE_EQ(of(learning_rate_rule::constant).efficiency(phi, 400), pollux / ideal_gain);
  EXPECT_DOUBLE_EQ(of(learning_rate_rule::square_root).efficiency(phi, 400), pollux * 2 / ideal_gain);
  EXPECT_DOUBLE_EQ(of(learning_rate_rule::linear).efficiency(phi, 400), pollux);
  EXPECT_DOUBLE_EQ(of(learning_rate_rule::square_root, true).efficiency(phi, 400), pollux);
}

TEST(Workload, HasANoiseScaleThatGrows) {
  const workload model{.phi_start = 100, .phi_epochs = 2, .phi_exponent = 0.5};
  EXPECT_DOUBLE_EQ(model.phi(0), 100);
  EXPECT_DOUBLE_EQ(model.phi(6), 200);
}

TEST(Workload, TellsAtWhichProgressAnAccuracyIsReached) {
  const workload model{.accuracy_start = 0.1, .accuracy_limit = 0.9, .accuracy_epochs = 3, .accuracy_exponent = 1};
  EXPECT_DOUBLE_EQ(model.accuracy(0), 0.1);
  EXPECT_DOUBLE_EQ(model.accuracy(3), 0.5);
  EXPECT_DOUBLE_EQ(model.progress_for(0.5), 3);
  EXPECT_DOUBLE_EQ(model.progress_for(model.accuracy(17)), 17);
  EXPECT_EQ(model.progress_for(0.05), 0);
  EXPECT_TRUE(std::isinf(model.progress_for(0.9)));
}

TEST(Workload, LosesAsMuchAsGuessingAtFirst) {
  const workload model{.accuracy_start = 0.1};
  EXPECT_DOUBLE_EQ(model.loss(0.1), std::log(10));
  EXPECT_DOUBLE_EQ(model.loss(1), 0);
  EXPECT_GT(model.loss(0.5), model.loss(0.6));
}

} // namespace
} // namespace dynamix::simulator
