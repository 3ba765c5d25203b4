#include "node/experiments/statistics.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace dynamix::node {
namespace {

TEST(Statistics, EstimatesAMeanWithStudentsInterval) {
  // Mean 4, sum of squares 10 of 4 degrees of freedom: s = sqrt(2.5), t = 2.7764, half = 2.7764 * sqrt(2.5 / 5).
  const auto five = estimate_of({2, 3, 4, 5, 6});
  EXPECT_EQ(five.mean, 4);
  EXPECT_EQ(five.count, 5U);
  EXPECT_NEAR(five.half_width, 1.9632, 1e-4);
  EXPECT_NEAR(five.low(), 2.0368, 1e-4);
  EXPECT_NEAR(five.high(), 5.9632, 1e-4);
}

TEST(Statistics, KnowsNoIntervalOfOneNumberAndNoMeanOfNone) {
  EXPECT_EQ(estimate_of({7}).mean, 7);
  EXPECT_TRUE(std::isnan(estimate_of({7}).half_width));
  EXPECT_TRUE(std::isnan(estimate_of({}).mean));
  EXPECT_TRUE(std::isnan(median_of({})));
}

TEST(Statistics, QuantilesFollowThePublishedTable) {
  EXPECT_DOUBLE_EQ(student_t_975(1), 12.7062);
  EXPECT_DOUBLE_EQ(student_t_975(4), 2.7764);
  EXPECT_DOUBLE_EQ(student_t_975(30), 2.0423);
  EXPECT_NEAR(student_t_975(31), 2.0395, 5e-4);
  EXPECT_NEAR(student_t_975(60), 2.0003, 5e-4);
  EXPECT_NEAR(student_t_975(1'000'000), 1.95996, 1e-4);
}

TEST(Statistics, ARatioIsOfTheMeansWithThePairsSpread) {
  // Means 6 and 8. Pairs 0.5, 1.0: mean 0.75, s = 0.35355, t = 12.7062, half = 12.7062 * 0.35355 / sqrt(2).
  const auto ratio = ratio_of({4, 8}, {8, 8});
  EXPECT_DOUBLE_EQ(ratio.mean, 0.75);
  EXPECT_NEAR(ratio.half_width, 3.17655, 1e-4);
  EXPECT_DOUBLE_EQ(ratio_of({1, 9}, {10, 10}).mean, 0.5);
  EXPECT_DOUBLE_EQ(ratio_of({2, 30}, {1, 31}).mean, 1) << "the mean of the ratios would be 1.48";
}

TEST(Statistics, VariationIsRelativeToTheMean) {
  EXPECT_NEAR(coefficient_of_variation({8, 12}), std::sqrt(8.0) / 10, 1e-12);
  EXPECT_EQ(coefficient_of_variation({5}), 0);
}

TEST(Statistics, FindsTheEpisodeInWhichARewardReachesItsPlateau) {
  // From -1 to 0: 95 % of the way is -0.05. The mean of episodes 4 to 6 is -0.0333, that of 3 to 5 -0.1333.
  const auto course = course_of({-1, -0.6, -0.3, -0.1, 0, 0, 0, 0, 0});
  ASSERT_TRUE(course);
  EXPECT_EQ(course->first, -1);
  EXPECT_EQ(course->plateau, 0);
  EXPECT_EQ(course->episode, 5U);
  EXPECT_EQ(course_of({-1, 0, 0, -1, 0, 0, 0, 0, 0})->episode, 6U) << "a single good one is none";
}

TEST(Statistics, ARewardThatDoesNotRiseHasNoPlateau) {
  EXPECT_FALSE(course_of({0.5, 0.4, 0.3, 0.2, 0.2, 0.2})->episode);
  EXPECT_FALSE(course_of({0, 1, -1, 1, -1, 1.1, -0.9, 1, 0.2})->episode) << "noise";
  EXPECT_FALSE(course_of({1, 2, 3, 4, 5})) << "too few";
}

TEST(Statistics, FindsTheMedianOfEvenAndOddCounts) {
  EXPECT_EQ(median_of({3, 1, 2}), 2);
  EXPECT_EQ(median_of({4, 1, 3, 2}), 2.5);
}

} // namespace
} // namespace dynamix::node
