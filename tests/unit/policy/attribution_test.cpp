#include "policy/attribution.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace dynamix::policy {
namespace {

constexpr double tolerance = 1e-12;

struct step {
  double compute = 0;
  double exchange = 0;
  double data = 0.001;
  double other = 0.002;
};

messages::window_report report_of(std::uint32_t rank, const step& parts) {
  messages::window_report report{.rank = rank, .window = 7};
  report.training = {.steps = 10,
                     .iteration_seconds = parts.compute + parts.exchange + parts.data + parts.other,
                     .compute_seconds = parts.compute,
                     .exchange_seconds = parts.exchange,
                     .data_seconds = parts.data};
  return report;
}

messages::shard_report shard_of(std::vector<messages::window_report> reports) {
  return {.window = 7, .reports = std::move(reports), .expected = 4};
}

double sum(const time_split& split) {
  return split.compute_seconds + split.cpu_wait_seconds + split.network_seconds + split.barrier_seconds +
         split.data_seconds + split.other_seconds;
}

void set_blocked(messages::window_report& report, double seconds) {
  report.network.valid = true;
  report.network.sender_blocked_ratio = seconds / report.training.iteration_seconds;
}

TEST(Attribution, PartsAddUpToTheStep) {
  auto shard = shard_of({report_of(0, {0.020, 0.010}), report_of(1, {0.011, 0.019}), report_of(2, {0.029, 0.001})});
  shard.reports[1].system = {.valid = true, .run_queue_wait_ratio = 0.2};
  set_blocked(shard.reports[2], 0.0004);
  const auto splits = attribute(shard);
  ASSERT_EQ(splits.size(), 3U);
  for (std::size_t i = 0; i < splits.size(); ++i)
    EXPECT_NEAR(sum(splits[i]), shard.reports[i].training.iteration_seconds, tolerance);
}

TEST(Attribution, ASlowPeerIsTheOthersBarrierAndNobodysNetwork) {
  const auto splits = attribute(shard_of({report_of(0, {0.010, 0.032}), report_of(1, {0.040, 0.002})}));
  EXPECT_NEAR(splits[0].barrier_seconds, 0.030, tolerance);
  EXPECT_NEAR(splits[0].network_seconds, 0.002, tolerance);
  EXPECT_NEAR(splits[1].barrier_seconds, 0, tolerance);
  EXPECT_NEAR(splits[1].network_seconds, 0.002, tolerance);
  EXPECT_NEAR(splits[1].compute_seconds, 0.040, tolerance);
  EXPECT_NEAR(splits[1].data_seconds, 0.001, tolerance);
  EXPECT_NEAR(splits[1].other_seconds, 0.002, tolerance);
}

TEST(Attribution, ASlowLinkIsTheNetworkOfTheHostThatWasBlocked) {
  auto shard = shard_of({report_of(0, {0.010, 0.050}), report_of(1, {0.010, 0.050}), report_of(2, {0.010, 0.050})});
  set_blocked(shard.reports[0], 0.005);
  set_blocked(shard.reports[1], 0.047);
  set_blocked(shard.reports[2], 0.005);
  const auto splits = attribute(shard);
  EXPECT_NEAR(splits[1].network_seconds, 0.050, tolerance);
  EXPECT_NEAR(splits[1].barrier_seconds, 0, tolerance);
  EXPECT_NEAR(splits[0].network_seconds, 0.003 + 0.005, tolerance);
  EXPECT_NEAR(splits[0].barrier_seconds, 0.042, tolerance);
}

TEST(Attribution, WithoutABlockedSenderTheCommonWaitIsEverybodysNetwork) {
  const auto splits = attribute(shard_of({report_of(0, {0.010, 0.050}), report_of(1, {0.010, 0.050})}));
  for (const auto& split : splits) {
    EXPECT_NEAR(split.network_seconds, 0.050, tolerance);
    EXPECT_NEAR(split.barrier_seconds, 0, tolerance);
  }
}

TEST(Attribution, ASenderThatIsBlockedBehindComputingCostsNothing) {
  auto shard = shard_of({report_of(0, {0.100, 0.002}), report_of(1, {0.100, 0.002})});
  set_blocked(shard.reports[0], 0.080);
  const auto splits = attribute(shard);
  EXPECT_NEAR(splits[0].network_seconds, 0.002, tolerance);
  EXPECT_NEAR(splits[1].network_seconds, 0, tolerance);
  EXPECT_NEAR(splits[1].barrier_seconds, 0.002, tolerance);
}

TEST(Attribution, WaitingForACpuIsNoComputing) {
  auto shard = shard_of({report_of(0, {0.040, 0.007}), report_of(1, {0.040, 0.007})});
  shard.reports[0].system = {
      .valid = true, .run_queue_wait_ratio = 3, .training_valid = true, .training_wait_ratio = 0.5};
  shard.reports[1].system = {.valid = true, .run_queue_wait_ratio = 0.1};
  shard.reports[0].system.run_queue_wait_ratio = 0.5;
  const auto splits = attribute(shard);
  EXPECT_NEAR(splits[0].cpu_wait_seconds, 0.025, tolerance);
  EXPECT_NEAR(splits[0].compute_seconds, 0.015, tolerance);
  EXPECT_NEAR(splits[1].cpu_wait_seconds, 0.005, tolerance);
}

/// Its thread runs and waits for longer than it computes: it also has to wait where it goes on behind the exchange.
TEST(Attribution, ComputingThatGotACpuIsNoWaiting) {
  auto shard = shard_of({report_of(0, {0.020, 0.077}), report_of(1, {0.020, 0.077})});
  for (auto& report : shard.reports)
    report.system = {.valid = true, .run_queue_wait_ratio = 0.6};
  auto& alone = shard.reports[0].system;
  alone.training_valid = true;
  alone.training_wait_ratio = 0.6;
  alone.training_cpu_ratio = 0.2;
  shard.reports[1].system.cpu_time_ratio = 1.8;
  const auto splits = attribute(shard);
  EXPECT_NEAR(splits[0].compute_seconds, 0.005, tolerance);
  EXPECT_NEAR(splits[0].cpu_wait_seconds, 0.060, tolerance);
  EXPECT_NEAR(splits[1].compute_seconds, 0.020 * 1 / 1.6, tolerance);
  EXPECT_NEAR(splits[1].cpu_wait_seconds, 0.020 * 0.6 / 1.6, tolerance);
}

TEST(Attribution, AnExchangeThatWaitsForACpuIsNoNetworkAndTheOthersBarrier) {
  auto shard = shard_of({report_of(0, {0.010, 0.040}), report_of(1, {0.020, 0.030})});
  const double total = shard.reports[1].training.iteration_seconds;
  shard.reports[1].system = {.valid = true,
                             .run_queue_wait_ratio = (0.010 + 0.028) / total,
                             .training_valid = true,
                             .training_wait_ratio = 0.010 / total};
  const auto splits = attribute(shard);
  EXPECT_NEAR(splits[1].cpu_wait_seconds, 0.038, tolerance);
  EXPECT_NEAR(splits[1].compute_seconds, 0.010, tolerance);
  EXPECT_NEAR(splits[1].network_seconds, 0.002, tolerance);
  EXPECT_NEAR(splits[0].network_seconds, 0.002, tolerance);
  EXPECT_NEAR(splits[0].barrier_seconds, 0.038, tolerance);
}

TEST(Attribution, TheMostBlockedSenderHasMoreOfTheNetworkThanOneWhoseAcknowledgementsItDelays) {
  auto shard = shard_of({report_of(0, {0.010, 0.080}), report_of(1, {0.010, 0.080})});
  set_blocked(shard.reports[0], 0.160);
  set_blocked(shard.reports[1], 0.080);
  const auto splits = attribute(shard);
  EXPECT_NEAR(splits[0].network_seconds, 0.080, tolerance);
  EXPECT_NEAR(splits[1].network_seconds, 0.040, tolerance);
  EXPECT_NEAR(splits[1].barrier_seconds, 0.040, tolerance);
}

TEST(Attribution, NoWorkerWaitsLongerForACpuThanItComputes) {
  auto shard = shard_of({report_of(0, {0.010, 0.090})});
  shard.reports[0].system = {.valid = true, .run_queue_wait_ratio = 5};
  const auto split = attribute(shard)[0];
  EXPECT_NEAR(split.cpu_wait_seconds, 0.010, tolerance);
  EXPECT_NEAR(split.compute_seconds, 0, tolerance);
}

TEST(Attribution, AStaleReportSetsNoFloor) {
  auto shard = shard_of({report_of(0, {0.010, 0.020}), report_of(1, {0.029, 0.001})});
  shard.reports[1].window = 6;
  const auto splits = attribute(shard);
  EXPECT_NEAR(splits[0].network_seconds, 0.020, tolerance);
  EXPECT_NEAR(splits[1].network_seconds, 0.001, tolerance);
}

TEST(Attribution, AReportWithoutTimesIsLeftOut) {
  auto shard = shard_of({report_of(0, {0.010, 0.020}), messages::window_report{.rank = 1, .window = 7}});
  const auto splits = attribute(shard);
  EXPECT_EQ(sum(splits[1]), 0);
  EXPECT_NEAR(splits[0].network_seconds, 0.020, tolerance);
}

TEST(Attribution, PartsAreTimesWhateverAWorkerReports) {
  using numbers = std::numeric_limits<double>;
  for (const auto lie : {numbers::max(), numbers::infinity(), numbers::quiet_NaN(), numbers::denorm_min(), -1e308}) {
    auto shard = shard_of({report_of(0, {.compute = 0.1}), report_of(1, {.compute = 0.2})});
    auto& report = shard.reports[0];
    report.training.compute_seconds = report.training.exchange_seconds = report.training.iteration_seconds = lie;
    report.system.valid = report.system.training_valid = report.network.valid = true;
    report.system.run_queue_wait_ratio = report.system.training_wait_ratio = lie;
    report.network.sender_blocked_ratio = lie;
    for (const auto& parts : attribute(shard))
      for (const auto seconds : {parts.compute_seconds, parts.cpu_wait_seconds, parts.network_seconds,
                                 parts.barrier_seconds, parts.data_seconds, parts.other_seconds})
        EXPECT_TRUE(seconds >= 0 && seconds <= messages::max_seconds) << seconds << " by " << lie;
  }
}

TEST(Attribution, PartsBeyondTheWholeAreScaledDown) {
  auto shard = shard_of({report_of(0, {0.010, 0.020, 0, -0.003})});
  EXPECT_NEAR(sum(attribute(shard)[0]), 0.027, tolerance);
}

} // namespace
} // namespace dynamix::policy
