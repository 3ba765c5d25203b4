#include "policy/pace_tracker.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace dynamix::policy {
namespace {

constexpr double noise = 0.05; // of the logarithm

class PaceTracker : public testing::Test {
protected:
  /// One step at this batch size, `factor` times as slow as usual.
  void step(double batch, double factor = 1) {
    tracker.measure(batch, factor * (0.02 + 0.001 * batch) * std::exp(noise * normal_(numbers_)));
  }

  pace_tracker tracker;

private:
  std::mt19937_64 numbers_{1};
  std::normal_distribution<double> normal_;
};

TEST_F(PaceTracker, RaisesNoFalseAlarmInASteadyHour) {
  for (int i = 0; i < 36'000; ++i) // steps of 0.1 s
    step(64);
  EXPECT_LE(tracker.changes(), 1U);
}

/// Six hours of steps of 2 ms, with noise alone: by what steps of 20 ms and more need they would raise 27.
TEST_F(PaceTracker, RaisesNoMoreFalseAlarmsAnHourWhereStepsAreShort) {
  for (int i = 0; i < 10'800'000; ++i)
    step(64, 0.002 / 0.084);
  EXPECT_LE(tracker.changes(), 6U);
  EXPECT_GE(tracker.changes(), 1U) << "evidence need not be endless";
}

TEST_F(PaceTracker, FollowsALargeChangeAtItsSecondStepAndASmallOneWithinSix) {
  for (int i = 0; i < 100; ++i)
    step(64);
  const double usual = tracker.seconds(64);
  step(64, 4);
  EXPECT_NEAR(tracker.seconds(64) / usual, 1, 0.05);
  step(64, 4);
  EXPECT_NEAR(tracker.seconds(64) / usual, 4, 0.6);
  step(64);
  step(64);
  EXPECT_NEAR(tracker.seconds(64) / usual, 1, 0.15);
  for (int i = 0; i < 100; ++i)
    step(64);
  for (int i = 0; i < 6; ++i)
    step(64, 1.25);
  EXPECT_NEAR(tracker.seconds(64) / usual, 1.25, 0.08);
}

TEST_F(PaceTracker, TakesNoSingleStepForAChangeHoweverLongOrShort) {
  for (const double factor : {2.0, 10.0, 1000.0, 0.5, 0.001}) {
    for (int i = 1; i <= 200; ++i) {
      step(64, i % 5 == 0 ? factor : 1);
      ASSERT_NEAR(tracker.seconds(64), 0.084, 0.084 * 0.2) << "step " << i << ", factor " << factor;
    }
  }
  EXPECT_LE(tracker.changes(), 2U) << "of 200 such steps";
}

TEST_F(PaceTracker, DoesNotLearnANewBatchSizeFromAnInterruptedStep) {
  for (int i = 0; i < 50; ++i)
    step(64);
  step(80, 1000);
  EXPECT_LE(tracker.seconds(80), 3 * 0.1);
  step(50, 1000);
  EXPECT_NEAR(tracker.seconds(64), 0.084, 0.084 * 0.1);
}

TEST_F(PaceTracker, AveragesNoiseBetweenChanges) {
  for (int i = 0; i < 200; ++i)
    step(64);
  EXPECT_NEAR(tracker.seconds(64), 0.084, 0.084 * 0.02);
  EXPECT_NEAR(tracker.estimate(64).error, noise / std::sqrt(100), 0.002) << "the mean of the newest hundred";
}

TEST_F(PaceTracker, KeepsTheShapeThatItLearnedWhenThePaceChanges) {
  for (int i = 0; i < 50; ++i)
    step(i % 2 == 0 ? 64 : 16);
  for (int i = 0; i < 20; ++i)
    step(64, 3);
  EXPECT_NEAR(tracker.seconds(16), 3 * 0.036, 0.15 * 3 * 0.036);
}

/// With as many batch sizes as it remembers it once learned of no further one, and was blind there for good.
TEST_F(PaceTracker, GoesOnLearningHoweverFarTheBatchSizeHasDrifted) {
  const auto becomes_slow = [&](double batch) {
    for (int i = 0; i < 50; ++i)
      step(batch);
    EXPECT_NEAR(tracker.seconds(batch), 0.02 + 0.001 * batch, 0.1 * (0.02 + 0.001 * batch)) << batch;
    const auto before = tracker.changes();
    for (int i = 0; i < 5; ++i)
      step(batch, 3);
    EXPECT_GT(tracker.changes(), before) << batch;
    for (int i = 0; i < 5; ++i)
      step(batch);
  };
  double batch = 8;
  for (int i = 0; i < 40; ++i, batch *= 1.12)
    for (int steps = 0; steps < 10; ++steps)
      step(batch);
  becomes_slow(batch);
  for (int i = 0; i < 80; ++i, batch /= 1.12)
    for (int steps = 0; steps < 10; ++steps)
      step(batch);
  becomes_slow(batch);
}

TEST_F(PaceTracker, IgnoresWhatIsNoMeasurement) {
  tracker.measure(0, 1);
  tracker.measure(8, std::nan(""));
  tracker.measure(8, -1);
  EXPECT_FALSE(tracker.measured());
}

} // namespace
} // namespace dynamix::policy
