#include "policy/step_time_table.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace dynamix::policy {
namespace {

TEST(StepTimeTable, KnowsNothingBeforeAMeasurement) {
  step_time_table table;
  EXPECT_TRUE(table.curve().empty());
  for (const auto wrong : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    table.measure(64, wrong);
    table.measure(wrong, 0.1);
  }
  EXPECT_TRUE(table.curve().empty());
}

TEST(StepTimeTable, TakesASinglePointAsProportionalBelowItAndAsHalfFixedAbove) {
  step_time_table table;
  table.measure(64, 0.02);
  EXPECT_DOUBLE_EQ(table.curve().seconds(64), 0.02);
  EXPECT_DOUBLE_EQ(table.curve().seconds(128), 0.03);
  EXPECT_DOUBLE_EQ(table.curve().seconds(32), 0.01);
  EXPECT_DOUBLE_EQ(table.curve().batch_within(0.03), 128);
}

TEST(StepTimeTable, InterpolatesAndGoesOnWithTheLastSlope) {
  step_time_table table;
  table.measure(100, 0.03); // 0.01 + 0.0002 b
  table.measure(200, 0.05);
  table.measure(400, 0.13); // 0.0004 a sample, more than t/b
  const auto& curve = table.curve();
  EXPECT_NEAR(curve.seconds(150), 0.04, 1e-12);
  EXPECT_NEAR(curve.seconds(50), 0.02, 1e-12);
  EXPECT_NEAR(curve.seconds(800), 0.26, 1e-12) << "the fixed cost would be negative";
  EXPECT_NEAR(curve.batch_within(0.04), 150, 1e-9);
  EXPECT_NEAR(curve.batch_within(0.02), 50, 1e-9);
  EXPECT_NEAR(curve.batch_within(0.26), 800, 1e-9);
  EXPECT_EQ(curve.batch_within(0.005), 0) << "less than the fixed cost";
}

TEST(StepTimeTable, PromisesNoFreeSamplesBeyondAFlatPiece) {
  step_time_table table;
  table.measure(100, 0.04);
  table.measure(200, 0.04);
  EXPECT_EQ(table.curve().seconds(150), 0.04);
  EXPECT_EQ(table.curve().batch_within(0.04), 200);
  EXPECT_NEAR(table.curve().seconds(400), 0.05, 1e-12); // a quarter of 0.04 for every 200 samples
}

TEST(StepTimeTable, TellsAChangeOfSpeedAlsoWhereTheBatchChangesWithIt) {
  step_time_table table;
  for (const auto batch : {32.0, 64.0, 128.0})
    table.measure(batch, 0.01 + 0.0001 * batch);
  table.measure(128, 3 * (0.01 + 0.0128)); // left out
  table.measure(45, 3 * (0.01 + 0.0045));
  EXPECT_NEAR(table.curve().seconds(128), 3 * (0.01 + 0.0128), 0.003);
  EXPECT_NEAR(table.curve().seconds(32), 3 * (0.01 + 0.0032), 0.003);
}

TEST(StepTimeTable, WeighsTheOlderLessWhereMeasurementsContradictEachOther) {
  step_time_table table;
  table.measure(64, 0.02);
  table.measure(128, 0.014); // the first has weight 0.9 by now
  const double pooled = (0.9 * 0.02 + 0.014) / 1.9;
  EXPECT_NEAR(table.curve().seconds(64), pooled, 1e-12);
  EXPECT_NEAR(table.curve().seconds(128), pooled, 1e-12);
}

/// The first time at another batch size may be chance, which once made all other points wrong for good.
TEST(StepTimeTable, LearnsAPointOfWhichItKnowsLittleRatherThanAPace) {
  step_time_table table;
  for (int i = 0; i < 8; ++i)
    table.measure(200, 0.04);
  table.measure(100, 0.017); // by chance
  for (int i = 0; i < 8; ++i)
    table.measure(100, 0.02);
  EXPECT_NEAR(table.curve().seconds(200), 0.04, 0.08 * 0.04) << "where it has not run since";
}

TEST(StepTimeTable, MovesThePaceHalfOfTheWayForAllBatchSizes) {
  step_time_table table;
  table.measure(200, 0.04);
  table.measure(100, 0.02);
  for (int i = 0; i < 8; ++i)
    table.measure(100, 0.02);
  table.measure(100, 0.0242); // 21 % more, of which the pace of a point known well takes 8 %
  const double pace = std::pow(1.21, 0.5 * 9 / 11);
  EXPECT_NEAR(table.curve().seconds(200), pace * 0.04, 1e-9) << "where it has not run since";
  EXPECT_NEAR(table.curve().seconds(100), pace * (0.02 + 0.2 * (0.0242 / pace - 0.02)), 1e-9);
  for (int i = 0; i < 20; ++i)
    table.measure(100, 0.0242);
  EXPECT_NEAR(table.curve().seconds(100), 0.0242, 1e-5);
}

TEST(StepTimeTable, BelievesASuspectedChangeOfSpeedWhenAnotherBatchSizeSpeaksForIt) {
  step_time_table table;
  table.measure(64, 0.02);
  table.measure(64, 0.06); // left out
  table.measure(20, 0.02); // a third of the samples in the time that 64 took before
  EXPECT_NEAR(table.curve().seconds(64), 0.06, 1e-12);
  EXPECT_NEAR(table.curve().seconds(20), 0.02, 1e-12);
}

TEST(StepTimeTable, LeavesAHiccupOutAndTakesAChangeOfSpeedAtOnce) {
  step_time_table table;
  table.measure(128, 0.04);
  table.measure(64, 0.02);
  table.measure(64, 0.06);
  EXPECT_NEAR(table.curve().seconds(64), 0.02, 1e-12) << "a single measurement may be a hiccup";
  table.measure(64, 0.02);
  table.measure(64, 0.06);
  EXPECT_NEAR(table.curve().seconds(64), 0.02, 1e-12) << "two that do not follow each other too";
  table.measure(64, 0.06);
  EXPECT_NEAR(table.curve().seconds(64), 0.06, 1e-12);
  EXPECT_NEAR(table.curve().seconds(128), 0.12, 1e-12) << "as much slower where it has not run since";
}

TEST(StepTimeTable, StaysMonotoneWhateverItIsTold) {
  std::mt19937_64 generator(11);
  std::uniform_real_distribution<double> seconds(0.001, 0.1);
  step_time_table table;
  for (int i = 0; i < 2000; ++i) {
    table.measure(static_cast<double>(1 + generator() % 100000), seconds(generator));
    const auto& curve = table.curve();
    if (curve.empty() || i % 50 != 0)
      continue;
    double before = 0;
    for (double batch = 1; batch < 200000; batch *= 1.3) {
      const auto now = curve.seconds(batch);
      ASSERT_TRUE(std::isfinite(now) && now > 0);
      ASSERT_GE(now, before * (1 - 1e-12));
      ASSERT_GE(curve.batch_within(now * (1 + 1e-9)), batch * (1 - 1e-6));
      before = now;
    }
  }
}

/// A worker whose batch size follows its pace is seen at small ones when it is slow and at large ones when it is fast.
TEST(StepTimeTable, KeepsTheShapeWhereBatchSizesFollowAPaceThatItIsTold) {
  const auto seconds = [](double batch) { return 0.01 + 0.001 * batch; };
  step_time_table told;
  step_time_table blind;
  double before = 1;
  for (int window = 0; window < 40; ++window) {
    const double pace = window % 4 == 3 ? 4 : 1;
    const double batch = pace == 4 ? 20 + window % 3 : 90 + 5 * (window % 5);
    told.measure(batch, pace * seconds(batch), pace / before);
    blind.measure(batch, pace * seconds(batch));
    before = pace;
  }
  constexpr double pace = 1; // a single slow window, as the last one, moves no plan
  EXPECT_NEAR(told.curve().seconds(200), pace * seconds(200), 0.1 * pace * seconds(200));
  EXPECT_NEAR(told.curve().seconds(20), pace * seconds(20), 0.1 * pace * seconds(20));
  EXPECT_GT(std::abs(blind.curve().seconds(20) / blind.curve().seconds(200) - seconds(20) / seconds(200)), 0.1)
      << "without it small batches look dear";
}

} // namespace
} // namespace dynamix::policy
