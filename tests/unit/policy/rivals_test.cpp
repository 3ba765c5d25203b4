#include "policy/rivals.hpp"
#include "samples.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <stdexcept>

namespace dynamix::policy {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::Lt;

constexpr cluster::batch limits{.initial = 64, .lowest = 16, .highest = 1024};

/// A window in which every worker ran with 64 samples per step and computed for these seconds.
messages::shard_report measured(std::uint64_t window, const std::vector<double>& seconds) {
  auto shard = testing::make_shard(static_cast<std::uint32_t>(seconds.size()), window);
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    shard.reports[i].batch = 64;
    shard.reports[i].training.compute_seconds = seconds[i];
  }
  return shard;
}

std::vector<std::uint32_t> batches(const std::vector<choice>& choices) {
  std::vector<std::uint32_t> all;
  for (const auto& each : choices)
    all.push_back(each.batch);
  return all;
}

testing::measured_controller measured_lb_bsp(const cluster::batch& within = limits) {
  return {make_lb_bsp(within), within};
}
testing::measured_controller measured_omnilearn() {
  return {make_omnilearn(limits), limits};
}
testing::measured_controller measured_lb_bsp_of() {
  return measured_lb_bsp();
}
/// Has seen twice the batch take twice the time, in window 1, so that all step times are proportional.
testing::measured_controller measured_goodput(double exchange_seconds, const cluster::batch& within = limits) {
  testing::measured_controller controller(make_goodput(), within);
  auto shard = measured(1, {0.04, 0.12});
  for (auto& report : shard.reports) {
    report.batch = 128;
    report.training.exchange_seconds = exchange_seconds;
  }
  controller.decide(shard);
  return controller;
}

TEST(LbBsp, SplitsInProportionToTheMeasuredSpeed) {
  auto controller = measured_lb_bsp();
  const auto first = controller.decide(measured(1, {0.02, 0.06}));
  EXPECT_THAT(batches(first), ElementsAre(96, 32));
  EXPECT_EQ(first[0].reason, "computes 3200 samples/s of 4267 in all: 75 % of 128");
  // The moving averages are (3200 + 1600)/2 and 1066.7: 88.6 and 39.4 samples, and 89 in 37.08 ms beats 40 in 37.5.
  EXPECT_THAT(batches(controller.decide(measured(2, {0.04, 0.06}))), ElementsAre(89, 39));
}

TEST(LbBsp, KeepsTheGlobalBatchWithinTheLimitsOfEach) {
  const auto shard = measured(1, {0.02, 0.06});
  EXPECT_THAT(batches(measured_lb_bsp({.initial = 64, .lowest = 16, .highest = 80}).decide(shard)),
              ElementsAre(80, 48));
  EXPECT_THAT(batches(measured_lb_bsp({.initial = 64, .lowest = 40, .highest = 99}).decide(shard)),
              ElementsAre(88, 40));
}

/// What a script has chosen, whose batch sizes no cluster file knows.
TEST(Rivals, KeepTheGlobalBatchThatAScriptBeganWith) {
  for (auto* make : {measured_lb_bsp_of, measured_omnilearn}) {
    auto controller = make();
    auto shard = measured(1, {0.02, 0.06});
    for (auto& report : shard.reports) {
      report.batch = 32;
      report.base_batch = 64;
    }
    EXPECT_THAT(batches(controller.decide(shard, 32)), ElementsAre(48, 16));
    shard.window = 2;
    for (auto& report : shard.reports)
      report.window = 2;
    shard.reports[0].highest_batch = 40;
    EXPECT_THAT(batches(controller.decide(shard, 32)), ElementsAre(40, 24)) << "within its own limit";
  }
}

/// They once gave up the lost worker's part of the global batch, which the learning rate is for.
TEST(Rivals, KeepTheGlobalBatchOfWorkersThatHaveGone) {
  constexpr std::uint32_t began = 3;
  for (auto* make : {make_lb_bsp, make_omnilearn}) {
    testing::measured_controller controller(make(limits), limits, began);
    EXPECT_THAT(batches(controller.decide(measured(1, {0.02, 0.06, 0.03}))), ElementsAre(96, 32, 64));
    EXPECT_THAT(batches(controller.decide(measured(2, {0.02, 0.06}), {144, 48})), ElementsAre(144, 48));
  }
}

TEST(Omnilearn, TakesTheProportionalStep) {
  // db = -(64/0.02)(0.02 - 0.04) = 64 and -(64/0.06)(0.06 - 0.04) = -21.3; 128 : 42.7 of 128 samples is 96 : 32.
  const auto choices = measured_omnilearn().decide(measured(1, {0.02, 0.06}));
  EXPECT_THAT(batches(choices), ElementsAre(96, 32));
  EXPECT_EQ(choices[0].reason, "computes 20.0 ms per step against a mean of 40.0 ms: +64 of 64");
  EXPECT_EQ(choices[1].reason, "computes 60.0 ms per step against a mean of 40.0 ms: -21 of 64");
}

TEST(Omnilearn, DoesNotMoveWithinItsDeadBand) {
  auto controller = measured_omnilearn();
  const auto still = controller.decide(measured(1, {0.040, 0.042}));
  EXPECT_THAT(batches(still), ElementsAre(64, 64));
  EXPECT_EQ(still[0].reason, "every worker is within 5 % of its share: keeps 64");
  EXPECT_THAT(batches(controller.decide(measured(2, {0.040, 0.052}))), ElementsAre(69, 59)); // averages 40 and 47 ms
}

TEST(Omnilearn, AveragesTimesOfOneBatchSizeOnly) {
  auto controller = measured_omnilearn();
  controller.decide(measured(1, {0.02, 0.06}));
  auto shard = measured(2, {0.03, 0.03});
  shard.reports[0].batch = 96;
  shard.reports[1].batch = 32;
  const auto choices = controller.decide(shard, {96, 32});
  EXPECT_THAT(batches(choices), ElementsAre(96, 32)) << "in balance: the times before count no more";
}

TEST(Omnilearn, RestoresTheGlobalBatch) {
  EXPECT_THAT(batches(measured_omnilearn().decide(measured(1, {0.04, 0.04}), 100)), ElementsAre(64, 64));
}

/// As `measured`, with an exchange whose shortest wait is `exchange_seconds`, and a noise scale.
messages::shard_report noisy(double exchange_seconds, double noise_scale, std::uint64_t global_batch = 128,
                             std::uint64_t window = 2) {
  auto shard = measured(window, {0.02, 0.06});
  for (auto& report : shard.reports) {
    report.global_batch = global_batch;
    report.training.exchange_seconds = exchange_seconds + (report.rank == 0 ? 0.04 : 0);
    report.training.gradient_valid = noise_scale > 0;
    report.training.noise_scale = noise_scale;
  }
  return shard;
}

std::uint64_t total(const std::vector<choice>& choices) {
  return std::accumulate(choices.begin(), choices.end(), std::uint64_t{0},
                         [](auto sum, const auto& each) { return sum + each.batch; });
}

// The split is 3:1, so T_grad = c*B with c = 0.75 * 0.02/64, and goodput is largest at B = sqrt(T_sync * phi / c).
TEST(Goodput, FindsTheBestGlobalBatchAndItsSplit) {
  auto controller = measured_goodput(0.1);
  controller.decide(noisy(0.1, 128)); // a first time at the batch sizes that it predicts from
  const auto choices = controller.decide(noisy(0.1, 128, 128, 3));
  const auto found = total(choices);
  EXPECT_NEAR(static_cast<double>(found), 213.3, 17); // candidates lie 4.5 % apart, and goodput is flat there
  EXPECT_NEAR(choices[1].batch, static_cast<double>(found) / 4, 1);
  EXPECT_THAT(choices[0].reason, AllOf(HasSubstr("of " + std::to_string(found) + " samples in 5"),
                                       HasSubstr("exchange 100.0 ms, noise scale 128: goodput +")));
  EXPECT_NEAR(static_cast<double>(total(measured_goodput(1).decide(noisy(1, 128, 512)))), 675, 31);
}

TEST(Goodput, GoesBelowTheInitialGlobalBatchWhereThatPaysAndGoesBackWithoutANoiseScale) {
  auto controller = measured_goodput(0.01);
  EXPECT_EQ(total(controller.decide(noisy(0.01, 128))), 128U) << "a gain of 5 % is no more than the error at first";
  for (std::uint64_t window = 3; window < 40; ++window)
    controller.decide(noisy(0.01, 128, 128, window));
  EXPECT_NEAR(static_cast<double>(total(controller.decide(noisy(0.01, 128, 128, 40)))), 81.0, 6);
  auto unknown = measured_goodput(0.01);
  EXPECT_EQ(total(unknown.decide(noisy(0.01, 0), {48, 16})), 128U);
}

TEST(Goodput, AtMostDoublesWhatHasRunAndKeepsToTheLimits) {
  EXPECT_THAT(batches(measured_goodput(1).decide(noisy(1, 128))), ElementsAre(192, 64)); // 675
  auto narrow = measured_goodput(1, {.initial = 64, .lowest = 50, .highest = 100});
  EXPECT_EQ(total(narrow.decide(noisy(1, 128))), 200U);
}

TEST(Goodput, SplitsTheGlobalBatchAsItIsWhileTheNoiseIsUnknown) {
  const auto choices = measured_goodput(1).decide(noisy(1, 0));
  EXPECT_THAT(batches(choices), ElementsAre(96, 32));
  EXPECT_THAT(choices[0].reason, HasSubstr("noise scale not measured yet"));
}

TEST(Goodput, DoesNotMoveForLittle) {
  auto controller = measured_goodput(0.01);
  const auto shard = noisy(0.01, 400); // the best split takes 30 + 10 ms per step, this one 30.3 + 10 ms
  for (const auto& each : controller.decide(shard, {97, 31}))
    EXPECT_THAT(each.reason, HasSubstr("keeps " + std::to_string(each.rank == 0 ? 97 : 31)));
}

class EveryRival : public ::testing::TestWithParam<cluster::policy_kind> {
protected:
  testing::measured_controller make() const { return testing::make_measured(testing::make_file(GetParam())); }
};
INSTANTIATE_TEST_SUITE_P(Rivals, EveryRival,
                         ::testing::Values(cluster::policy_kind::lb_bsp, cluster::policy_kind::omnilearn,
                                           cluster::policy_kind::goodput));

TEST_P(EveryRival, HasItsNameAndNothingToLearn) {
  auto controller = make();
  EXPECT_EQ(controller->name(), cluster::to_string(GetParam()));
  EXPECT_FALSE(controller->learns());
  EXPECT_THAT(controller->adopt({}), HasSubstr("does not learn"));
  EXPECT_THROW(make_controller(testing::make_file(GetParam()), {1}), std::invalid_argument);
  const auto shard = testing::make_shard(2);
  EXPECT_THROW(controller.decide(shard, std::vector<std::uint32_t>{64}), std::invalid_argument);
  const messages::shard_report empty;
  EXPECT_TRUE(controller.decide(empty, {}).empty());
  for (const auto& each : controller.decide(measured(1, {0.02, 0.06}))) {
    EXPECT_EQ(each.action, -1);
    EXPECT_TRUE(each.state.empty());
  }
}

TEST_P(EveryRival, LeavesASingleWorkerAlone) {
  auto controller = make();
  for (std::uint64_t window = 1; window < 5; ++window)
    EXPECT_THAT(batches(controller.decide(measured(window, {0.02 * static_cast<double>(window)}))), ElementsAre(64));
}

TEST_P(EveryRival, KeepsEverythingWhileNothingIsMeasured) {
  auto controller = make();
  auto shard = measured(1, {0, 0});
  shard.reports[1].batch = 0;
  shard.reports[1].training.steps = 0;
  const auto choices = controller.decide(shard, {60, 68});
  EXPECT_THAT(batches(choices), ElementsAre(60, 68));
  EXPECT_EQ(choices[1].reason, "no worker measured yet: keeps 68");
}

TEST_P(EveryRival, CountsAWorkerThatDidNotComputeAsAnAverageOne) {
  auto controller = make();
  auto shard = measured(1, {0.02, 0.06, 0});
  shard.reports[2].batch = 0;
  const auto choices = controller.decide(shard);
  EXPECT_EQ(total(choices), 192U);
  EXPECT_THAT(choices[2].batch, AllOf(Lt(choices[0].batch), Gt(choices[1].batch)));
  EXPECT_THAT(choices[2].reason, HasSubstr("not measured yet, counts as an average worker"));
}

TEST_P(EveryRival, MeasuresAWindowOnce) {
  auto once = make();
  auto twice = make();
  for (std::uint64_t window = 1; window <= 4; ++window) {
    const auto shard = measured(window, {0.02, 0.05});
    once.decide(shard);
    twice.decide(shard);
    auto stale = measured(window, {0.06, 0.02}); // stands in for a late report of the window after
    twice.decide(stale);
  }
  const auto last = measured(5, {0.02, 0.05});
  EXPECT_EQ(batches(once.decide(last)), batches(twice.decide(last)));
}

TEST_P(EveryRival, StaysWithinTheLimitsWhateverTimesAreReported) {
  using numbers = std::numeric_limits<double>;
  for (const auto lie : {numbers::max(), numbers::infinity(), numbers::quiet_NaN(), numbers::denorm_min()}) {
    auto controller = make();
    for (std::uint64_t window = 1; window <= 6; ++window) {
      // The two of one host, or one worker twice at the same batch size.
      auto shard = measured(window, {0.02, lie, 0.05, lie});
      for (auto& report : shard.reports) {
        report.training.gradient_valid = true;
        report.training.noise_scale = report.rank % 2 == 1 ? lie : 100;
        report.training.exchange_seconds = report.rank % 2 == 1 ? lie : 0.01;
      }
      const auto choices = controller.decide(shard);
      ASSERT_EQ(choices.size(), 4U);
      for (const auto& each : choices)
        EXPECT_TRUE(each.batch >= 16 && each.batch <= 1024) << each.batch << " in window " << window << " by " << lie;
    }
  }
}

TEST_P(EveryRival, KnowsAHostAgainInTheNextGeneration) {
  auto controller = make();
  controller.decide(measured(7, {0.02, 0.06}));
  auto shard = measured(1, {0.06, 0.02});
  for (auto& report : shard.reports)
    report.generation = 2;
  std::swap(shard.reports[0].host, shard.reports[1].host);
  EXPECT_THAT(batches(controller.decide(shard)), ElementsAre(32, 96));
}

} // namespace
} // namespace dynamix::policy
