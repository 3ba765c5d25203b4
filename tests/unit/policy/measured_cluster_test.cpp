#include "policy/measured_cluster.hpp"
#include "samples.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <random>

namespace dynamix::policy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr cluster::batch limits{.initial = 64, .lowest = 8, .highest = 1024};

messages::shard_report shard_of(std::uint64_t window, const std::vector<double>& seconds,
                                double exchange_seconds = 0.01, double noise_scale = 0) {
  auto shard = testing::make_shard(static_cast<std::uint32_t>(seconds.size()), window);
  const auto slowest = std::ranges::max(seconds);
  for (auto& report : shard.reports) {
    report.batch = 64;
    report.global_batch = 64 * seconds.size();
    report.training.compute_seconds = seconds[report.rank];
    report.training.exchange_seconds = exchange_seconds + slowest - seconds[report.rank];
    report.training.iteration_seconds = exchange_seconds + slowest;
    report.training.gradient_valid = noise_scale > 0;
    report.training.noise_scale = noise_scale;
  }
  return shard;
}

/// A cluster that has seen twice the batch take twice the time, in window 1, so that all step times are proportional.
measured_cluster proportional(std::vector<double> seconds, double exchange_seconds = 0.01) {
  for (auto& each : seconds)
    each *= 2;
  auto shard = shard_of(1, seconds, exchange_seconds);
  for (auto& report : shard.reports)
    report.batch = 128;
  measured_cluster measured(limits);
  measured.measure(shard);
  return measured;
}

TEST(MeasuredCluster, KnowsNothingAtFirst) {
  measured_cluster measured(limits);
  EXPECT_FALSE(measured.any_measured());
  auto shard = shard_of(1, {0.02, 0.04});
  for (auto& report : shard.reports)
    report.training.steps = 0;
  measured.measure(shard);
  EXPECT_FALSE(measured.any_measured());
  EXPECT_EQ(measured.progress(), 0);
}

TEST(MeasuredCluster, ValuesAGlobalBatchByWhatTheLearningRateIsFor) {
  measured_cluster measured(limits, cluster::learning_rate_rule::constant, 2);
  measured.measure(shard_of(1, {0.02, 0.02, 0.02, 0.02}, 0.01, 500));
  EXPECT_EQ(measured.initial_total(), 2U * 64) << "of the two that training began with, and four are there";
  EXPECT_DOUBLE_EQ(measured.efficiency(2 * 64), 1);
  EXPECT_EQ(measured.least_planned(), 2U * 64);
  measured.measure(shard_of(2, {0.02}, 0.01, 500));
  EXPECT_EQ(measured.initial_total(), 2U * 64) << "and one has stayed";
  EXPECT_GE(measured.best().total, 2U * 64);
  measured_cluster all(limits);
  all.measure(shard_of(1, {0.02, 0.02, 0.02, 0.02}));
  EXPECT_EQ(all.initial_total(), 4U * 64);
}

TEST(WorkerMemory, ForgetsWhomItHasNotSeenTheLongest) {
  worker_memory<int> memory;
  auto report = shard_of(1, {0.02}).reports.front();
  const auto see = [&](const std::string& host) {
    report.host = host;
    return memory.of(report);
  };
  see("stays").measured = 1;
  see("goes").measured = 2;
  const auto guests = worker_memory<int>::workers_remembered - 1;
  for (std::size_t i = 0; i < guests; ++i) {
    EXPECT_FALSE(see("stays").fresh) << "it has told of this window";
    EXPECT_TRUE(see("guest-" + std::to_string(i)).fresh);
  }
  EXPECT_EQ(see("stays").measured, 1);
  EXPECT_FALSE(see("guest-0").fresh);
  const auto gone = see("goes");
  EXPECT_TRUE(gone.fresh);
  EXPECT_EQ(gone.measured, 0);
}

TEST(MeasuredCluster, PredictsAndSplits) {
  auto measured = proportional({0.02, 0.06});
  measured.measure(shard_of(2, {0.02, 0.06}, 0.01));
  EXPECT_NEAR(measured.exchange_seconds(), 0.01, 1e-12);
  const auto plan = measured.split(128);
  EXPECT_THAT(plan.batches, ElementsAre(96, 32));
  EXPECT_NEAR(plan.slowest_seconds, 0.03, 1e-9);
  EXPECT_NEAR(plan.goodput, 128 / 0.04, 1e-6) << "without phi every sample is as good";
}

TEST(MeasuredCluster, FindsTheGlobalBatchWithTheHighestGoodput) {
  auto measured = proportional({0.02, 0.06}, 0.1);
  measured.measure(shard_of(2, {0.02, 0.06}, 0.1, 500));
  const auto plan = measured.best(128, 2048);
  // T = 0.1 + 0.03 B/128, phi at least 500/1.2: goodput is largest at B = sqrt(0.1 * 417 * 128 / 0.03) = 422.
  EXPECT_NEAR(static_cast<double>(plan.total), 422, 12);
  for (std::uint64_t total = 128; total <= 2048; ++total)
    EXPECT_LE(measured.split(total).goodput, 1.001 * plan.goodput) << total;
}

/// The least of each worker's average wait once stood for it: with the slowest another each time it read 30 ms here.
TEST(MeasuredCluster, ReadsTheExchangeFromWhoeverIsTheSlowestInEachWindow) {
  measured_cluster measured(limits);
  for (std::uint64_t window = 1; window <= 8; ++window)
    measured.measure(window % 2 == 0 ? shard_of(window, {0.02, 0.06}) : shard_of(window, {0.06, 0.02}));
  EXPECT_NEAR(measured.exchange_seconds(), 0.01, 1e-9);
  measured.measure(shard_of(9, {0.06, 0.02}, 0.05));
  EXPECT_NEAR(measured.exchange_seconds(), 0.03, 1e-9) << "half of the way to a congested one";
}

TEST(MeasuredCluster, ReadsNoExchangeFromReportsThatStoodIn) {
  measured_cluster measured(limits);
  measured.measure(shard_of(1, {0.02, 0.02}, 0.01));
  auto shard = shard_of(2, {0.02, 0.02}, 0.09);
  for (auto& report : shard.reports)
    report.window = 1;
  measured.measure(shard);
  EXPECT_NEAR(measured.exchange_seconds(), 0.01, 1e-9);
}

TEST(MeasuredCluster, PlansBelowTheInitialGlobalBatchWhereTheNoiseScaleIsSmall) {
  auto measured = proportional({0.02, 0.02}, 0.01);
  EXPECT_EQ(measured.least_planned(), 128U) << "no noise scale speaks for less";
  measured.measure(shard_of(2, {0.02, 0.02}, 0.01, 50));
  EXPECT_EQ(measured.least_planned(), 16U);
  // T = 0.01 + 0.02 B/128, phi at most 60: goodput is largest at B = sqrt(0.01 * 60 * 128 / 0.02) = 62.0.
  const auto plan = measured.best();
  EXPECT_NEAR(static_cast<double>(plan.total), 62.0, 12) << "whole samples leave candidates far apart";
  for (std::uint64_t total = 16; total <= 256; ++total)
    EXPECT_LE(measured.split(total).goodput, 1.01 * plan.goodput) << total;
}

TEST(MeasuredCluster, KeepsTheInitialGlobalBatchWhereTheNoiseScaleMayBeWrongByWhatAnotherGains) {
  auto measured = proportional({0.02, 0.02}, 0.015);
  measured.measure(shard_of(2, {0.02, 0.02}, 0.015, 150));
  // At phi = 150 the best would be 120; up to 180 it would be 131, down to 125 110.
  EXPECT_EQ(measured.best().total, 128U);
}

TEST(MeasuredCluster, PlansAtMostTwiceWhatHasRunWhereTrainingBeginsBelowTheInitialGlobalBatch) {
  for (const double noise_scale : {0.0, 1e6}) {
    measured_cluster measured(limits);
    auto shard = shard_of(1, {0.005, 0.005}, 0.01, noise_scale);
    for (auto& report : shard.reports) {
      report.batch = 16;
      report.global_batch = 32;
    }
    measured.measure(shard);
    EXPECT_LE(measured.best().total, 64U) << noise_scale;
    EXPECT_GE(measured.best().total, 60U) << noise_scale;
  }
}

/// Gradients that hardly point anywhere yet have a noise scale that tells nothing.
TEST(MeasuredCluster, LeavesTheGlobalBatchInTheFirstStepsOfTraining) {
  for (const std::uint32_t batch : {16U, 64U, 128U})
    for (const double noise_scale : {0.0, 1.0, 1e6}) {
      measured_cluster measured(limits);
      const auto measure = [&](std::uint64_t window) {
        auto shard = shard_of(window, {0.005, 0.005, 0.005}, 0.01, noise_scale);
        for (auto& report : shard.reports) {
          report.batch = batch;
          report.global_batch = 3 * batch;
          report.first_step = 10 * (window - 1);
        }
        shard.reports[window % 3].first_step = window % 2 == 0 ? messages::max_counter : 0; // one is wrong
        measured.measure(shard);
      };
      for (const std::uint64_t window : {1, 2, 3, 4}) {
        measure(window);
        EXPECT_FALSE(measured.noise_known()) << window;
        EXPECT_EQ(measured.best().total, 3 * batch) << noise_scale;
        EXPECT_EQ(measured.least_planned(), 3 * batch);
      }
      measure(5); // has ended with the 50th step
      EXPECT_EQ(measured.noise_known(), noise_scale > 0);
      EXPECT_EQ(measured.largest_planned(), 6 * batch);
    }
}

TEST(MeasuredCluster, PlansAtMostTwiceWhatARunResumesWith) {
  for (const std::uint32_t batch : {16U, 64U, 256U}) {
    measured_cluster fresh(limits);                   // knows nothing of the run before
    auto shard = shard_of(7, {0.005, 0.005}, 1, 1e9); // so that the largest batch allowed is the best
    for (auto& report : shard.reports) {
      report.batch = batch;
      report.global_batch = 2 * batch;
    }
    fresh.measure(shard);
    EXPECT_EQ(fresh.largest_planned(), 4 * batch);
    EXPECT_LE(fresh.best().total, 4 * batch);
    EXPECT_GT(fresh.best().total, 3 * batch);
  }
}

TEST(MeasuredCluster, GoesBackToTheInitialGlobalBatchInBoundedTimeWhenNothingSpeaksForLess) {
  measured_cluster measured(limits);
  std::vector<std::uint32_t> assigned{16, 16};
  std::uint64_t total = 32;
  for (std::uint64_t window = 1; window <= 4; ++window) {
    auto shard = shard_of(window, {0.02, 0.02}, 0.01, 128);
    for (std::size_t i = 0; i < 2; ++i) {
      shard.reports[i].batch = assigned[i];
      shard.reports[i].global_batch = total;
      shard.reports[i].training.compute_seconds = 0.01 + 0.01 * assigned[i] / 64;
    }
    measured.measure(shard);
    const auto [reason, plan] = measured.worthwhile(measured.best(), assigned);
    EXPECT_LE(plan.total, 2 * total);
    if (total < 120) {
      EXPECT_EQ(reason, "grows from " + std::to_string(total) + " to " + std::to_string(plan.total) +
                            ", towards the initial global batch of 128");
    }
    assigned = plan.batches;
    total = plan.total;
  }
  EXPECT_GE(total, 124U);
}

/// Steps of 2.5 ms whose cost hardly depends on the batch: chance once gave one of them 50 times the other's samples.
TEST(MeasuredCluster, LeavesEqualHostsEqualSharesWhateverChanceSays) {
  std::mt19937_64 generator(7);
  for (const double deviation : {0.02, 0.05, 0.1})
    for (const double fixed : {0.001, 0.01, 0.5}) {
      measured_cluster measured(limits);
      std::vector<std::uint32_t> assigned(4, 64);
      std::normal_distribution<double> noise(0, deviation);
      int uneven = 0;
      for (std::uint64_t window = 1; window <= 200; ++window) {
        std::vector<double> seconds;
        for (const auto batch : assigned)
          seconds.push_back((fixed + 2e-6 * batch) * std::exp(noise(generator)));
        auto shard = shard_of(window, seconds, 0.001, 300);
        for (std::size_t i = 0; i < 4; ++i) {
          shard.reports[i].batch = assigned[i];
          shard.reports[i].global_batch = std::accumulate(assigned.begin(), assigned.end(), std::uint64_t{0});
        }
        measured.measure(shard);
        assigned = measured.worthwhile(measured.best(), assigned).plan.batches;
        uneven += std::ranges::max(assigned) > 1.5 * std::ranges::min(assigned) ? 1 : 0;
      }
      EXPECT_LE(uneven, 10) << deviation << " of " << fixed;
    }
}

TEST(MeasuredCluster, GivesUnequalHostsWhatTheyGainNearlyWhole) {
  auto measured = proportional({0.02, 0.02, 0.04, 0.08});
  const std::vector<std::uint32_t> equal(4, 64);
  const auto plan = measured.worthwhile(measured.split(256), equal).plan;
  // 93, 93, 47 and 23 take 29.4 ms where equal shares take 80.
  EXPECT_LE(plan.slowest_seconds, 0.0294 + 0.01 * (0.08 - 0.0294));
}

/// Between 165 and 275 samples goodput is within 2 % of the best, which is at 211.
TEST(MeasuredCluster, ChangesNoGlobalBatchWithoutAGain) {
  auto measured = proportional({0.02, 0.02}, 0.03);
  for (std::uint64_t window = 2; window <= 40; ++window)
    measured.measure(shard_of(window, {0.02, 0.02}, 0.03, 279));
  for (const std::uint32_t assigned : {84U, 110U, 130U})
    for (const std::uint64_t other : {130U, 190U, 211U, 240U, 280U}) {
      const auto [reason, plan] = measured.worthwhile(measured.split(other), {assigned, assigned});
      EXPECT_THAT(plan.batches, ElementsAre(assigned, assigned)) << other;
      EXPECT_THAT(reason, HasSubstr("stays at " + std::to_string(2 * assigned) + ": "));
    }
  const auto [reason, plan] = measured.worthwhile(measured.best(), {400, 400});
  EXPECT_EQ(plan.total, measured.best().total);
  EXPECT_THAT(reason, HasSubstr("gains "));
}

/// Shares that gain once took a global batch with them that gained nothing.
TEST(MeasuredCluster, ChangesSharesAloneWhereOnlyThoseGain) {
  auto measured = proportional({0.02, 0.06}, 0.03);
  measured.measure(shard_of(2, {0.02, 0.06}, 0.03, 279));
  const auto [reason, plan] = measured.worthwhile(measured.split(220), {100, 100});
  EXPECT_THAT(plan.batches, ElementsAre(150, 50));
  EXPECT_THAT(reason, HasSubstr("stays at 200: 220 would gain "));
}

/// A guess at twice the batch, of half the step fixed where less of it is, once made a change gain 9 % from then on.
TEST(MeasuredCluster, AsksForNoGreaterGainBecauseAGuessBeyondWhatWasMeasuredWasOff) {
  measured_cluster measured(limits);
  for (std::uint64_t window = 1; window <= 20; ++window)
    measured.measure(shard_of(window, {0.02, 0.02}));
  auto shard = shard_of(21, {0.036, 0.036});
  for (auto& report : shard.reports)
    report.batch = 128;
  measured.measure(shard);
  EXPECT_NEAR(measured.surprise(0), std::log2(0.036 / 0.03), 1e-9);
  // The error began at 0.15, and is that of 19 exact predictions: 0.15 (0.9^10 / 10)^0.5 of 0.036 / 0.046 of a step.
  EXPECT_THAT(measured.worthwhile(measured.split(256), {128, 128}).reason, HasSubstr("has to gain 3.0 %"));
}

/// Linear scaling lowers the learning rate further than the noise scale asks for, a constant one not at all.
TEST(MeasuredCluster, StaysAtTheInitialGlobalBatchWhereTheLearningRateWouldBeWrongBelow) {
  using enum cluster::learning_rate_rule;
  for (const auto rule : {constant, linear}) {
    measured_cluster measured(limits, rule);
    measured.measure(shard_of(1, {0.02, 0.02}, 0.01, 50));
    EXPECT_EQ(measured.best().total, 128U);
  }
}

TEST(MeasuredCluster, ABeliefInTheNewestWindowTakesAChangeOfSpeedAtOnce) {
  auto measured = proportional({0.02, 0.02});
  for (std::uint64_t window = 2; window <= 4; ++window)
    measured.measure(shard_of(window, {0.02, 0.02}));
  measured.measure(shard_of(5, {0.06, 0.02}));
  EXPECT_NEAR(measured.surprise(0), std::log2(3), 1e-9);
  EXPECT_NEAR(measured.surprise(1), 0, 1e-9);
  EXPECT_THAT(measured.split(128).batches, ElementsAre(64, 64)) << "once may be a hiccup";
  const std::vector<belief> newest(2, belief::newest);
  EXPECT_THAT(measured.split(128, newest).batches, ElementsAre(32, 96));
  measured.measure(shard_of(6, {0.06, 0.02}));
  EXPECT_THAT(measured.split(128).batches, ElementsAre(32, 96)) << "twice is a change";
  EXPECT_THAT(measured.split(128, newest).batches, ElementsAre(32, 96)) << "and counts once";
}

TEST(MeasuredCluster, CautiousTakesATenthMoreTime) {
  auto measured = proportional({0.02, 0.02});
  measured.measure(shard_of(2, {0.02, 0.02}));
  const std::vector<belief> how = {belief::cautious, belief::average};
  EXPECT_THAT(measured.split(128, how).batches, ElementsAre(61, 67));
}

TEST(MeasuredCluster, ProgressIsNearZeroAtTheBestAndTellsWhatWasLost) {
  auto measured = proportional({0.02, 0.02});
  measured.measure(shard_of(2, {0.02, 0.02}));
  EXPECT_NEAR(measured.progress(), 0, 1e-3);
  measured.measure(shard_of(3, {0.02, 0.06}));
  // 128 samples in 70 ms; 96 and 32 would have taken 30 + 10 ms.
  EXPECT_NEAR(measured.progress(), std::log2(40.0 / 70), 0.01);
}

TEST(MeasuredCluster, RemembersAHostAcrossGenerationsAndRanks) {
  measured_cluster measured(limits);
  measured.measure(shard_of(1, {0.02, 0.06}));
  auto shard = shard_of(1, {0.02});
  shard.generation = 2;
  shard.reports[0].generation = 2;
  shard.reports[0].host = "host-1";
  shard.reports[0].training.compute_seconds = 0.06;
  measured.measure(shard);
  EXPECT_NEAR(measured.surprise(0), 0, 1e-9) << "host-1 took 60 ms before";
}

TEST(MeasuredCluster, LearnsNothingFromAReportThatStoodIn) {
  measured_cluster measured(limits);
  for (std::uint64_t window = 1; window <= 2; ++window)
    measured.measure(shard_of(window, {0.02, 0.02}, 0.01, 100));
  auto shard = shard_of(3, {0.02, 0.09}, 0.01, 100);
  shard.reports[1].window = 2;
  shard.reports[1].training.noise_scale = 9000;
  measured.measure(shard);
  EXPECT_EQ(measured.surprise(1), 0);
  EXPECT_NEAR(measured.noise_scale(), 100, 1e-9);
}

TEST(MeasuredCluster, StaysFiniteWhateverPeersReport) {
  measured_cluster measured(limits);
  for (const double seconds : {1e-300, 1e300, 0.01}) {
    auto shard = shard_of(static_cast<std::uint64_t>(1 + 10 * seconds == 1 ? 1 : 2), {seconds, 0.02}, 1e300, 1e308);
    measured.measure(shard);
    EXPECT_TRUE(std::isfinite(measured.progress()));
    EXPECT_TRUE(std::isfinite(measured.surprise(0)));
    for (const auto batch : measured.best().batches)
      EXPECT_TRUE(batch >= limits.lowest && batch <= limits.highest);
  }
}

TEST(MeasuredCluster, StaysFiniteWhateverAWorkerReportsAmongOthers) {
  using numbers = std::numeric_limits<double>;
  for (const auto lie : {numbers::max(), numbers::infinity(), numbers::quiet_NaN(), numbers::denorm_min(), -1e308}) {
    measured_cluster measured(limits);
    for (std::uint64_t window = 1; window < 8; ++window) {
      auto shard = shard_of(window, {0.01, 0.02, 0.03}, 0.01, 100);
      auto& training = shard.reports[1].training;
      training.compute_seconds = training.exchange_seconds = training.iteration_seconds = training.noise_scale = lie;
      shard.reports[1].balance.pace_change = lie;
      measured.measure(shard);
      EXPECT_TRUE(std::isfinite(measured.progress())) << lie;
      EXPECT_TRUE(std::isfinite(measured.surprise(1))) << lie;
      EXPECT_TRUE(std::isfinite(measured.exchange_seconds())) << lie;
      EXPECT_TRUE(std::isfinite(measured.noise_scale())) << lie;
      const std::vector<belief> newest(3, belief::newest);
      for (const auto& plan : {measured.best(), measured.best(newest), measured.split(300, newest)}) {
        EXPECT_TRUE(std::isfinite(plan.goodput) && plan.goodput > 0) << lie;
        for (const auto batch : plan.batches)
          EXPECT_TRUE(batch >= limits.lowest && batch <= limits.highest) << lie;
      }
    }
  }
}

TEST(MeasuredCluster, PlansByTheGlobalBatchThatMostHaveRun) {
  auto measured = proportional({0.02, 0.02, 0.02}, 10);
  auto shard = shard_of(2, {0.02, 0.02, 0.02}, 10, 1e9); // so that the largest batch allowed is the best
  shard.reports[1].global_batch = 3072;
  measured.measure(shard);
  EXPECT_LE(measured.best().total, 2U * 3 * 64);
}

/// The limit on what a plan tries once stood for ever on the largest global batch that was ever reported.
TEST(MeasuredCluster, ForgetsTheLargestGlobalBatchThatRanLongAgoOrInAnotherGeneration) {
  auto measured = proportional({0.02, 0.02}, 10);
  std::uint64_t window = 2;
  const auto run = [&](std::uint64_t global_batch, std::uint64_t generation = 1) {
    auto shard = shard_of(window++, {0.02, 0.02}, 10, 1e9); // so that the largest batch allowed is the best
    shard.generation = generation;
    for (auto& report : shard.reports) {
      report.generation = generation;
      report.global_batch = global_batch;
    }
    measured.measure(shard);
    return measured.best().total;
  };
  EXPECT_GT(run(512), 900U);
  EXPECT_LE(run(128), 256U) << "twice what runs now";
  EXPECT_GT(run(64), 200U) << "twice the initial one, which has run of late";
  for (int more = 0; more < 512; ++more)
    run(64);
  EXPECT_LE(run(64), 128U) << "twice what has run of late";
  EXPECT_GT(run(512), 900U);
  EXPECT_LE(run(64, 2), 128U) << "another generation";
}

/// Eight hosts that take 20 ms for 64 samples and one that takes 100 ms for the smallest batch; in each window the next
/// one takes eight times as long. `straggler`: that one; none: each of the eight in turn.
measured_cluster with_stragglers(double pace_told, std::optional<std::size_t> straggler = {}) {
  auto measured = proportional({0.02, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02, 0.8}, 0);
  for (std::uint64_t window = 2; window < 60; ++window) {
    std::vector<double> seconds(9, 0.02);
    seconds[8] = 0.1;
    seconds[straggler.value_or(window % 8)] *= 8;
    auto shard = shard_of(window, seconds, 0, 4000);
    shard.reports[8].batch = limits.lowest;
    for (auto& report : shard.reports)
      report.balance.pace_change = pace_told;
    measured.measure(shard);
  }
  return measured;
}

TEST(MeasuredCluster, ExpectsSomebodyToSlowDownWhereWorkersMoveWork) {
  const auto measured = with_stragglers(1);
  EXPECT_NEAR(measured.straggling(), 8, 0.1);
  const auto plan = measured.best();
  EXPECT_NEAR(plan.level_seconds, 0.1 / 8, 0.002) << "then a step takes as long as the slow host at its least anyway";
  EXPECT_NEAR(plan.slowest_seconds, 0.1, 0.01);
  for (std::uint64_t total = measured.lowest_total(); total <= 1024; ++total)
    EXPECT_LE(measured.split(total).goodput, 1.05 * plan.goodput) << total;
  EXPECT_GT(with_stragglers(0).best().total, 2 * plan.total) << "work that nobody moves";
}

TEST(MeasuredCluster, BlamesNobodyWhoCannotBeGivenLess) {
  EXPECT_EQ(with_stragglers(1, 8).straggling(), 1);
}

} // namespace
} // namespace dynamix::policy
