#include "session/reconnection.hpp"

#include <gtest/gtest.h>

namespace dynamix::session {
namespace {

TEST(Reconnection, TriesHostsInTurnAndPausesAfterEachRound) {
  reconnection next({.hosts = {"ada", "ben", "cy"}}, 0);
  for (const double pause : {0.02, 0.04, 0.08, 0.16, 0.25, 0.25}) {
    EXPECT_EQ(next.target(), 0U);
    EXPECT_EQ(next.failed(1), 0);
    EXPECT_EQ(next.failed(1), 0);
    EXPECT_EQ(next.target(), 2U);
    EXPECT_DOUBLE_EQ(next.failed(1), pause);
  }
}

TEST(Reconnection, BeginsAnewOnceAHostWasReached) {
  reconnection next({.hosts = {"ada"}}, 0);
  EXPECT_DOUBLE_EQ(next.failed(1), 0.02);
  EXPECT_DOUBLE_EQ(next.failed(1), 0.04);
  next.reached();
  EXPECT_DOUBLE_EQ(next.failed(1), 0.02);
}

TEST(Reconnection, TriesTheFirstHostAloneForAWhileUntilOneWasReached) {
  reconnection next({.hosts = {"ada", "ben"}, .first_seconds = 5}, 100);
  EXPECT_GT(next.failed(104), 0);
  EXPECT_EQ(next.target(), 0U);
  next.failed(105);
  EXPECT_EQ(next.target(), 1U);
  next.reached();
  next.failed(106);
  EXPECT_EQ(next.target(), 0U) << "each in turn from then on";
}

TEST(Reconnection, GoesWhereItIsSentOrToTheNext) {
  reconnection next({.hosts = {"ada", "ben", "cy"}}, 0);
  EXPECT_DOUBLE_EQ(next.redirected("cy", 1), 0.02);
  EXPECT_EQ(next.target(), 2U);
  next.redirected("", 1);
  EXPECT_EQ(next.target(), 0U);
  next.redirected("dot", 1);
  EXPECT_EQ(next.target(), 1U);
}

} // namespace
} // namespace dynamix::session
