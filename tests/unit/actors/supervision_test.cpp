#include "actors/host/supervision.hpp"

#include <gtest/gtest.h>

namespace dynamix::actors {
namespace {

const std::vector<std::string> chain = {"store", "aggregator", "arbitrator"};

TEST(Supervision, OneForOneRestartsTheFailedChildAlone) {
  supervision policy({.strategy = supervision_strategy::one_for_one}, chain);
  EXPECT_EQ(policy.failed(1, 0, "x").restart, (std::vector<std::size_t>{1}));
}

TEST(Supervision, RestForOneRestartsWhatWasStartedAfterIt) {
  supervision policy({.strategy = supervision_strategy::rest_for_one}, chain);
  EXPECT_EQ(policy.failed(1, 0, "x").restart, (std::vector<std::size_t>{1, 2}));
  EXPECT_EQ(policy.failed(2, 1, "x").restart, (std::vector<std::size_t>{2}));
  EXPECT_EQ(policy.failed(0, 2, "x").restart, (std::vector<std::size_t>{0, 1, 2}));
}

TEST(Supervision, EscalatesWhenFailuresComeTooFast) {
  supervision policy({.max_restarts = 3, .period_seconds = 10}, chain);
  for (int failure = 0; failure < 3; ++failure)
    EXPECT_FALSE(policy.failed(0, failure, "x").escalate);
  const auto plan = policy.failed(2, 3, "boom");
  EXPECT_TRUE(plan.escalate);
  EXPECT_NE(plan.reason.find("arbitrator failed (boom)"), std::string::npos) << plan.reason;
}

TEST(Supervision, ForgetsFailuresBehindThePeriod) {
  supervision policy({.max_restarts = 1, .period_seconds = 10}, chain);
  EXPECT_FALSE(policy.failed(0, 0, "x").escalate);
  EXPECT_FALSE(policy.failed(0, 10.5, "x").escalate);
  EXPECT_TRUE(policy.failed(0, 11, "x").escalate);
}

TEST(Supervision, BacksOffTwiceAsLongEachTimeUpToTheLongest) {
  supervision policy({.max_restarts = 100,
                      .period_seconds = 1000,
                      .first_delay_seconds = 0.1,
                      .longest_delay_seconds = 1,
                      .jitter = 0},
                     chain);
  const double expected[] = {0.1, 0.2, 0.4, 0.8, 1, 1, 1};
  for (const auto delay : expected)
    EXPECT_NEAR(policy.failed(0, 0, "x").delay_seconds, delay, 1e-12);
}

TEST(Supervision, JittersWithinItsShareAndBySeed) {
  const supervision_options options{
      .max_restarts = 1000, .first_delay_seconds = 1, .longest_delay_seconds = 1, .jitter = 0.2};
  supervision first(options, chain);
  supervision same(options, chain);
  bool varied = false;
  for (int failure = 0; failure < 100; ++failure) {
    const auto delay = first.failed(0, 0, "x").delay_seconds;
    EXPECT_GE(delay, 0.8);
    EXPECT_LE(delay, 1.2);
    EXPECT_EQ(delay, same.failed(0, 0, "x").delay_seconds);
    varied = varied || delay != 1;
  }
  EXPECT_TRUE(varied);
}

} // namespace
} // namespace dynamix::actors
