/// What the tests of AdaptDL's goodput model expect (adaptdl/adaptdl/goodput_test.py and fit_test.py at 542e123), asked
/// of what plans batch sizes here. No code is theirs. docs/peers.md has the table.

#include "policy/exchange_estimate.hpp"
#include "policy/measured_cluster.hpp"
#include "policy/step_time_table.hpp"
#include "samples.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace dynamix::policy {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::Ge;
using ::testing::Le;

constexpr std::uint32_t initial = 128; ///< of all, as in their tests

/// Workers that take 20 ms and 0.5 ms a sample, and 50 ms for the exchange, as four batch sizes have shown.
measured_cluster equal_workers(std::uint32_t workers, const cluster::batch& limits, double noise_scale) {
  measured_cluster measured(limits);
  std::uint64_t window = 0;
  for (const std::uint32_t batch : {32U, 64U, 128U, 256U}) {
    auto shard = testing::make_shard(workers, ++window);
    for (auto& report : shard.reports) {
      report.batch = batch;
      report.global_batch = std::uint64_t{batch} * workers;
      report.base_batch = initial;
      report.training.samples = 10ULL * batch;
      report.training.compute_seconds = 0.02 + 0.0005 * batch;
      report.training.exchange_seconds = 0.05;
      report.training.iteration_seconds = 0.07 + 0.0005 * batch;
      report.training.gradient_valid = true;
      report.training.noise_scale = noise_scale;
    }
    measured.measure(shard);
  }
  return measured;
}

/// test_optimize_no_bounds: each of n replicas gets a n-th of 128, rounded up. Ours are 128 in all.
TEST(AdaptdlsGoodput, KeepsTheInitialGlobalBatchWhereThatIsTheLargest) {
  for (std::uint32_t workers = 1; workers <= 5; ++workers) {
    const auto measured = equal_workers(workers, {.initial = 64, .lowest = 1, .highest = 1024}, 1000);
    const auto plan = measured.best(initial, initial);
    EXPECT_EQ(plan.total, initial);
    EXPECT_THAT(plan.batches, Each(AllOf(Ge(initial / workers), Le((initial + workers - 1) / workers))));
  }
}

/// test_optimize_local_bounds, test_optimize_max_bounds, test_optimize_all_bounds.
TEST(AdaptdlsGoodput, StaysWithinTheBoundsOfAWorkerAndOfAll) {
  for (std::uint32_t workers = 1; workers < 20; ++workers)
    for (const double noise_scale : {1.0, 100.0, 1e4, 1e6}) {
      const auto plan =
          equal_workers(workers, {.initial = 64, .lowest = 64, .highest = 256}, noise_scale).best(initial, 1280);
      EXPECT_THAT(plan.batches, Each(AllOf(Ge(64U), Le(256U))));
      EXPECT_GE(plan.total, initial);
      EXPECT_LE(plan.total, 1280U);
    }
}

/// GoodputFunction.optimize with these times (its gamma is 1), up to 4,096 samples, looks at 50 batches, 7 % apart. Its
/// noise scale is var B0/sqr; a global batch above B0 is judged here by a 1.2th of it, so theirs is given that.
TEST(AdaptdlsGoodput, IsHighestAtTheSameGlobalBatch) {
  const struct {
    std::uint32_t workers;
    double noise_scale;
    double batch;
    double goodput;
  } theirs[] = {
      {2, 1000.0, 492.0, 1849.0841421586515},  {4, 1000.0, 700.0, 2786.4734299163065},
      {8, 1000.0, 1000.0, 3957.4614063388035}, {8, 100.0, 304.0, 1863.6600977296655},
      {4, 10000.0, 2168.0, 5122.703964201466},
  };
  for (const auto& golden : theirs) {
    const auto measured =
        equal_workers(golden.workers, {.initial = 64, .lowest = 1, .highest = 4096}, golden.noise_scale);
    const auto plan = measured.best(initial, 4096);
    EXPECT_NEAR(plan.goodput, golden.goodput, 0.01 * golden.goodput) << golden.workers;
    EXPECT_NEAR(std::log(static_cast<double>(plan.total) / golden.batch), 0, std::log(1.15)) << golden.workers;
  }
}

/// fit_test draws 1,000 batch sizes of 32 to 1,023, for which a step takes 0.1 + 0.01 b seconds and up to some ms more.
std::vector<step_time> draw_times() {
  std::mt19937_64 random(1);
  std::normal_distribution<> noise(0, 0.001);
  std::vector<step_time> drawn(1000);
  for (auto& each : drawn) {
    each.batch = std::uniform_int_distribution<>(32, 1023)(random);
    each.seconds = 0.1 + 0.01 * each.batch + std::max(0.0, noise(random));
  }
  return drawn;
}

/// test_fit_1: their fit is as near to what was measured as the line is that made it. Ours is a table without a form.
TEST(AdaptdlsFit, OfComputingIsATableHereThatIsNearTheLine) {
  step_time_table table;
  for (const auto& [batch, seconds] : draw_times())
    table.measure(batch, seconds);
  for (double batch = 32; batch < 1024; batch += 31)
    EXPECT_NEAR(table.curve().seconds(batch) / (0.1 + 0.01 * batch), 1, 0.02) << batch;
}

/// The same with their gamma of 1.2, for four replicas of several nodes, whose exchange takes 0.5 + 2 x 1.0 seconds.
TEST(AdaptdlsFit, OfTheOverlapIsFoundFromTheSameTimes) {
  exchange_estimate learned;
  constexpr double gamma = 1.2;
  constexpr double exchange = 2.5;
  for (const auto& [batch, seconds] : draw_times())
    learned.measure(seconds, std::pow(std::pow(seconds, gamma) + std::pow(exchange, gamma), 1 / gamma));
  for (const double seconds : {0.5, 1.0, 2.5, 5.0, 10.0})
    EXPECT_NEAR(learned.elasticity(seconds), 1 / (1 + std::pow(exchange / seconds, gamma)), 0.03) << seconds;
}

} // namespace
} // namespace dynamix::policy
