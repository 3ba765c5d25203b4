#include "policy/exchange_estimate.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace dynamix::policy {
namespace {

/// After steps whose slowest worker takes from 0.5 to 8 s beside an exchange of 1 s.
exchange_estimate learned(double exponent) {
  exchange_estimate estimate;
  for (int step = 0; step < 300; ++step) {
    const double slowest = 2 * std::exp(std::numbers::ln2 * 2 * std::sin(0.3 * step));
    estimate.measure(slowest, std::pow(std::pow(slowest, exponent) + 1, 1 / exponent));
  }
  return estimate;
}

TEST(ExchangeEstimate, SaysHowAStepFollowsItsSlowestWorkerWhereverThatIs) {
  for (const double exponent : {1.0, 1.6, 3.2})
    for (const double slowest : {0.5, 1.0, 2.0, 8.0})
      EXPECT_NEAR(learned(exponent).elasticity(slowest), 1 / (1 + std::pow(slowest, -exponent)), 0.03)
          << exponent << " at " << slowest;
}

TEST(ExchangeEstimate, ForgetsAnExchangeThatHasChanged) {
  auto estimate = learned(2);
  for (int step = 0; step < 300; ++step) {
    const double slowest = 2 + std::sin(0.3 * step);
    estimate.measure(slowest, std::hypot(slowest, 6));
  }
  EXPECT_NEAR(estimate.elasticity(2), 4.0 / 40, 0.03);
}

TEST(ExchangeEstimate, FollowsFullyWhereNothingIsMeasuredOrNobodyWaitsForTheExchange) {
  exchange_estimate estimate;
  EXPECT_EQ(estimate.elasticity(1), 1);
  estimate.measure(0, 1);
  estimate.measure(1, std::nan(""));
  EXPECT_EQ(estimate.elasticity(1), 1);
  estimate.measure(1, 0.9); // two clocks
  EXPECT_EQ(estimate.elasticity(1), 1);
}

} // namespace
} // namespace dynamix::policy
