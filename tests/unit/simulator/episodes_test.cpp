#include "simulator/episodes.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace dynamix::simulator {
namespace {

episodes make_episodes(std::uint64_t seed) {
  return {100, 50, 4, random_stream(seed, 3, 1)};
}

TEST(RandomStream, KeepsItsNumbers) { // figures of simulations were measured with them
  random_stream stream(1, 2, 3);
  EXPECT_EQ(stream.next(), 15925659190040627001U);
  EXPECT_EQ(stream.next(), 6588988029983277238U);
  EXPECT_EQ(stream.next(), 9315241652495780889U);
}

TEST(Episodes, DoNotDependOnWhenTheyAreLookedAt) {
  auto often = make_episodes(1);
  auto seldom = make_episodes(1);
  for (int second = 0; second < 20'000; ++second) {
    const double factor = often.at(second);
    if (second % 37 == 0) {
      EXPECT_EQ(seldom.at(second), factor) << second;
    }
  }
}

TEST(Episodes, HaveTheGivenGapsDurationsAndFactors) {
  auto slow_downs = make_episodes(2);
  double slow = 0;
  double log_factors = 0;
  constexpr int samples = 1'000'000;
  for (int i = 0; i < samples; ++i)
    if (const double factor = slow_downs.at(i); factor != 1) {
      EXPECT_GE(factor, 1.25);
      EXPECT_LE(factor, 4);
      ++slow;
      log_factors += std::log(factor);
    }
  EXPECT_NEAR(slow / samples, 50.0 / 150.0, 0.02);
  EXPECT_NEAR(log_factors / slow, (std::log(1.25) + std::log(4)) / 2, 0.03);
}

/// Work that is done in short slices, each at the factor of its middle.
TEST(Episodes, SlowWorkDownWhileTheyLast) {
  constexpr double slice = 0.01;
  int met = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    auto slow_downs = make_episodes(seed);
    auto same = make_episodes(seed);
    double begin = 0;
    for (const double work : {1.0, 30.0, 400.0, 5.0}) {
      double done = 0;
      double seconds = 0;
      for (; done < work; seconds += slice)
        done += slice / (2 * same.at(begin + seconds + slice / 2));
      const auto course = slow_downs.course(begin, work, 2);
      EXPECT_EQ(course.factor(), 2 * slow_downs.at(begin));
      EXPECT_NEAR(course.seconds(work), seconds, 0.2) << seed << ' ' << work;
      met += course.seconds(work) > 2.02 * work ? 1 : 0;
      begin += seconds + slice;
    }
  }
  EXPECT_GT(met, 30);
}

TEST(Episodes, ComeTheSameWhereSomebodyHasLookedAhead) {
  auto looked_ahead = make_episodes(1);
  auto plain = make_episodes(1);
  for (int second = 0; second < 20'000; second += 7) {
    looked_ahead.course(second, second % 1000);
    EXPECT_EQ(looked_ahead.at(second), plain.at(second)) << second;
  }
}

TEST(Episodes, DifferFromSeedToSeed) {
  auto one = make_episodes(1);
  auto other = make_episodes(2);
  int different = 0;
  for (int second = 0; second < 1000; ++second)
    different += one.at(second) != other.at(second) ? 1 : 0;
  EXPECT_GT(different, 100);
}

TEST(Episodes, AreNoneWithoutARate) {
  episodes none(0, 50, 4, random_stream(1, 1, 1));
  EXPECT_EQ(none.at(0), 1);
  EXPECT_EQ(none.at(1e6), 1);
  EXPECT_EQ(none.course(1e6, 10, 3).seconds(10), 30);
}

} // namespace
} // namespace dynamix::simulator
