#include "simulator/slowdown_course.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace dynamix::simulator {
namespace {

TEST(SlowdownCourse, MayBeConstant) {
  const slowdown_course twice = 2;
  EXPECT_EQ(twice.factor(), 2);
  EXPECT_EQ(twice.seconds(3), 6);
  EXPECT_EQ(twice.work_within(6), 3);
  EXPECT_EQ(twice.constant_seconds(), std::numeric_limits<double>::infinity());
}

TEST(SlowdownCourse, ChangesWhileWorkIsDone) {
  slowdown_course course = 1;
  course.change_at(10, 4); // 10 s of work done
  course.change_at(18, 2); // 12
  EXPECT_EQ(course.factor(), 1);
  EXPECT_EQ(course.constant_seconds(), 10);
  EXPECT_DOUBLE_EQ(course.seconds(0), 0);
  EXPECT_DOUBLE_EQ(course.seconds(10), 10);
  EXPECT_DOUBLE_EQ(course.seconds(11), 14);
  EXPECT_DOUBLE_EQ(course.seconds(12), 18);
  EXPECT_DOUBLE_EQ(course.seconds(15), 24);
}

TEST(SlowdownCourse, TellsTheWorkOfASecondAsTheSecondsOfWork) {
  std::mt19937_64 generator(1);
  const auto uniform = [&](double low, double high) { return std::uniform_real_distribution(low, high)(generator); };
  for (int trial = 0; trial < 200; ++trial) {
    slowdown_course course = uniform(1, 8);
    double at = 0;
    for (int changes = trial % 6; changes > 0; --changes)
      course.change_at(at += uniform(0.01, 5), uniform(1, 8));
    for (int i = 0; i < 20; ++i) {
      const double work = uniform(0, 20);
      EXPECT_NEAR(course.work_within(course.seconds(work)), work, 1e-12 * (1 + work));
    }
  }
}

} // namespace
} // namespace dynamix::simulator
