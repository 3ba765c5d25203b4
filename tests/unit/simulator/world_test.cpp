#include "examples.hpp"
#include "simulator/world.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <stdexcept>

namespace dynamix::simulator {
namespace {

using testing::computing_seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::quiet_scenario;
using testing::worker;

using batches = std::vector<std::uint32_t>;

std::vector<double> factors_of(const truth& now) {
  std::vector<double> factors;
  for (const auto& each : now.slowdown)
    factors.push_back(each.factor());
  return factors;
}

/// Seconds of a step's exchange; nothing overlaps it.
double exchange_of(const scenario& what) {
  world cluster(what, 1);
  cluster.run_window(batches(what.profiles.size(), 64), {});
  return cluster.now_seconds() - computing_seconds(64);
}

TEST(World, ExchangesThroughServersAsMuchFasterAsTheFormulaPromises) {
  using enum cluster::exchange_kind;
  auto what = quiet_scenario(4);
  what.workload.gradient_mib = 100;
  const double equal = exchange_of(what);
  worker(what, 3).bandwidth_mbit = what.file.simulation.bandwidth_mbit / 2;
  const double in_ring = exchange_of(what);
  EXPECT_NEAR(in_ring / equal, 2, 1e-9);
  for (const auto how : {parameter_server, automatic}) {
    what.file.training.exchange = how;
    EXPECT_NEAR(in_ring / exchange_of(what), 1.5, 1e-9);
  }
  worker(what, 3).bandwidth_mbit = 0;
  EXPECT_NEAR(exchange_of(what), equal, 1e-12) << "nothing to win: it stays with the ring";
  for (const auto* name : {"s0", "s1", "s2", "s3"})
    what.file.hosts.push_back({.name = name, .roles = {cluster::role::server}});
  EXPECT_NEAR(equal / exchange_of(what), 1.5, 1e-9) << "as many hosts that only serve";
  what.file.simulation.topology = cluster::topology_kind::parameter_server;
  EXPECT_NEAR(exchange_of(what) / equal, 4 / 1.5, 1e-9) << "one server's link carries what all send";
}

TEST(World, ExchangesSparseRowsInTheFormOfTheFile) {
  auto what = quiet_scenario(4);
  what.workload.gradient_mib = 40;
  what.workload.sparse_mib = 40;
  what.workload.sample_rows = 12;
  what.workload.rows_in_use = 71'000;
  EXPECT_NEAR(static_cast<double>(what.workload.rows_of(1024)), 11'091, 0.02 * 11'091) << "as NCF was measured";
  EXPECT_NEAR(static_cast<double>(what.workload.rows_of(4096)), 35'166, 0.02 * 35'166);
  const double dense = exchange_of(what);
  using enum cluster::compression_kind;
  for (const auto how : {union_of_items, gather, lhc, automatic}) {
    what.file.training.compression = how;
    EXPECT_LT(exchange_of(what), dense / 10);
  }
  what.workload.sparse_mib = 0;
  EXPECT_NEAR(exchange_of(what), dense, 1e-9) << "nothing is sparse";
}

TEST(World, TakesAsLongAsItsSlowestWorkerAndTheExchange) {
  auto what = quiet_scenario(4);
  what.workload.gradient_mib = 8;
  what.file.simulation.latency_us = 100;
  world cluster(what, 1);
  const auto shard = cluster.run_window(batches{64, 32, 16, 8}, {});
  const double exchange = 1.5 * 8 * 1024 * 1024 / 1e9 + 6 * 1e-4;
  EXPECT_NEAR(cluster.now_seconds(), computing_seconds(64) + exchange, 1e-12);
  ASSERT_EQ(shard.reports.size(), 4U);
  for (const auto& report : shard.reports) {
    const double own = computing_seconds(report.batch);
    EXPECT_NEAR(report.training.compute_seconds, own, 1e-12);
    EXPECT_NEAR(report.training.iteration_seconds, computing_seconds(64) + exchange, 1e-12);
    EXPECT_NEAR(report.training.exchange_seconds, report.training.iteration_seconds - own, 1e-12);
  }
}

TEST(World, OverlapsComputingAndExchange) {
  auto what = quiet_scenario(2);
  what.workload.gradient_mib = 100;
  what.file.simulation.overlap = 2;
  world cluster(what, 1);
  cluster.run_window(batches{64, 64}, {});
  EXPECT_NEAR(cluster.now_seconds(), std::hypot(computing_seconds(64), 0.1 * 1.048576), 1e-12);
}

TEST(World, SlowsHostsDownAsTheFileSays) {
  auto what = quiet_scenario(2);
  worker(what, 1).emulate = {{.at_seconds = 0, .compute_slowdown = 3}, {.at_seconds = 0.2, .compute_slowdown = 1.5}};
  world cluster(what, 1);
  const double own = computing_seconds(64);
  EXPECT_THAT(factors_of(cluster.look()), ElementsAre(1, 3));
  cluster.run_window(batches{64, 64}, {}); // from 0 to 0.222
  EXPECT_NEAR(cluster.now_seconds(), 3 * own, 1e-12);
  EXPECT_THAT(factors_of(cluster.look()), ElementsAre(1, 1.5));
  const auto shard = cluster.run_window(batches{64, 64}, {});
  EXPECT_NEAR(cluster.now_seconds(), 4.5 * own, 1e-12);
  EXPECT_NEAR(shard.reports[0].training.compute_seconds, own, 1e-12);
}

/// What a slow-down costs goes by how much of the step it lasts, and who knows it can tell how long the step takes.
TEST(World, SlowDownsBeginAndEndWithinSteps) {
  auto what = quiet_scenario(3);
  what.file.simulation.slow_every_seconds = 0.2;
  what.file.simulation.slow_seconds = 0.1;
  world cluster(what, 1);
  const batches split{64, 100, 200};
  int partly = 0;
  for (int window = 0; window < 200; ++window) {
    const double before = cluster.now_seconds();
    const auto ahead = cluster.look_at_step();
    const double constant = cluster.look().step_seconds(split);
    cluster.run_window(split, {});
    EXPECT_NEAR(cluster.now_seconds() - before, ahead.step_seconds(split), 1e-9);
    partly += std::abs(ahead.step_seconds(split) - constant) > 1e-3 * constant ? 1 : 0;
  }
  EXPECT_GT(partly, 50);
}

TEST(World, LongStepsMeetShortSlowDownsInTheMean) {
  auto what = quiet_scenario(1);
  what.file.simulation.slow_every_seconds = 0.002;
  what.file.simulation.slow_seconds = 0.001;
  what.file.simulation.slow_factor = 4;
  world cluster(what, 1);
  for (int window = 0; window < 100; ++window)
    cluster.run_window(batches{512}, {});
  // A third of the time at 1 / f of the speed, log f even between log 1.25 and log 4.
  const double slow_speed = (1 / 1.25 - 1 / 4.0) / std::log(4 / 1.25);
  EXPECT_NEAR(100 * computing_seconds(512) / cluster.now_seconds(), (2 + slow_speed) / 3, 0.01);
}

TEST(World, SharesCoresAndWaitsForSlowDownsWithoutOne) {
  auto what = quiet_scenario(2);
  what.file.simulation.cores = 1;
  worker(what, 0).emulate = {{.at_seconds = 0, .compute_slowdown = 4}};
  world cluster(what, 1);
  const auto shard = cluster.run_window(batches{8, 64}, {});
  // The short one is done after twice its time and then waits three times as long; the long one has the core then.
  const double brief = computing_seconds(8);
  const double both = brief + computing_seconds(64);
  EXPECT_NEAR(shard.reports[0].training.compute_seconds, 4 * 2 * brief, 1e-12);
  EXPECT_NEAR(shard.reports[1].training.compute_seconds, both, 1e-12);
  EXPECT_NEAR(cluster.now_seconds(), both, 1e-12); // which does not wait for the other's slow-down, but for its step
  for (int window = 0; window < 20; ++window)
    cluster.run_window(batches{8, 64}, {});
  const double before = cluster.now_seconds();
  for (int window = 0; window < 12; ++window)
    cluster.run_window(batches{8, 64}, {});
  EXPECT_NEAR(cluster.look().step_seconds(batches{8, 64}), (cluster.now_seconds() - before) / 12, 0.02 * both);
}

TEST(World, TakesTimeForEvaluationsAndEndsAtOne) {
  auto what = quiet_scenario(2);
  what.workload.evaluation_samples = 9000;
  what.file.training.target_accuracy = 0.5;
  for (auto& profile : what.profiles)
    profile.evaluation_seconds = 1e-4;
  worker(what, 1).emulate = {{.at_seconds = 0, .compute_slowdown = 3}};
  world cluster(what, 1);
  random_stream numbers(1, 0, 0);
  cluster.run_window(batches{64, 128}, {});
  const double before = cluster.now_seconds();
  const auto early = cluster.evaluate(numbers); // the second has two thirds of it, at a third of the speed
  EXPECT_NEAR(early.seconds, 3 * 6000 * 1e-4, 1e-12);
  EXPECT_NEAR(cluster.now_seconds(), before + early.seconds, 1e-12);
  EXPECT_DOUBLE_EQ(early.accuracy, cluster.accuracy());
  while (cluster.accuracy() < 0.5)
    cluster.run_window(batches{64, 64}, {});
  EXPECT_LT(cluster.seconds_to_target(), 0); // nobody has looked
  EXPECT_NEAR(cluster.evaluate(numbers).seconds, 3 * 4500 * 1e-4, 1e-12);
  EXPECT_DOUBLE_EQ(cluster.seconds_to_target(), cluster.now_seconds());
}

TEST(World, SharesCoresInEvaluationsToo) {
  auto what = quiet_scenario(2);
  what.workload.evaluation_samples = 1000;
  what.file.simulation.cores = 1;
  for (auto& profile : what.profiles)
    profile.evaluation_seconds = 1e-3;
  world cluster(what, 1);
  random_stream numbers(1, 0, 0);
  cluster.run_window(batches{64, 64}, {});
  EXPECT_NEAR(cluster.evaluate(numbers).seconds, 1.0, 1e-12);
}

TEST(World, MakesTheProgressOfTheNoiseScale) {
  auto what = quiet_scenario(4);
  what.workload.phi_exponent = 1;
  what.workload.phi_epochs = 2;
  world cluster(what, 1);
  double progress = 0;
  for (int step = 0; step < 50; ++step) {
    cluster.run_window(batches(4, 128), {});
    const double phi = 1000 * (1 + progress / 2);
    progress += 512 * (phi + 256) / (phi + 512) / 60000;
    ASSERT_NEAR(cluster.progress(), progress, 1e-12);
  }
  EXPECT_EQ(cluster.samples(), 50U * 512);
  EXPECT_EQ(cluster.steps(), 50U);
  EXPECT_DOUBLE_EQ(cluster.epochs(), 50 * 512 / 60000.0);
  EXPECT_DOUBLE_EQ(cluster.look().phi, 1000 * (1 + cluster.progress() / 2));
  EXPECT_DOUBLE_EQ(cluster.accuracy(), what.workload.accuracy(cluster.progress()));
}

TEST(World, KnowsWhenTheTargetWasReachedToAPartOfAStep) {
  auto what = quiet_scenario(2);
  what.file.training.target_accuracy = 0.3;
  world cluster(what, 1);
  int windows = 0;
  for (; cluster.seconds_to_target() < 0 && windows < 1000; ++windows)
    cluster.run_window(batches(2, 64), {});
  const double a_step = 128 * (1000.0 + 256) / (1000 + 128) / 60000;
  const double steps = what.workload.progress_for(0.3) / a_step;
  EXPECT_EQ(windows, static_cast<int>(std::ceil(steps)));
  EXPECT_NEAR(cluster.seconds_to_target(), steps * computing_seconds(64), 1e-9);
}

TEST(World, EndsWhenABatchDoesNotFitIntoMemory) {
  auto what = quiet_scenario(3);
  worker(what, 1).batch_highest = 256;
  what.profiles[2].batch_highest = 128;
  world by_file(what, 1);
  EXPECT_THAT(by_file.look().highest, ElementsAre(1024, 256, 128));
  EXPECT_EQ(by_file.run_window(batches{1024, 256, 128}, {}).reports.size(), 3U);
  EXPECT_EQ(by_file.failure(), "");
  EXPECT_TRUE(by_file.run_window(batches{64, 257, 64}, {}).reports.empty());
  EXPECT_EQ(by_file.failure(), "out of memory on host w1: batch 257, 256 fit");
  EXPECT_EQ(by_file.steps(), 1U);
  EXPECT_TRUE(by_file.run_window(batches{64, 64, 64}, {}).reports.empty());
  world by_profile(what, 1);
  by_profile.run_window(batches{64, 64, 129}, {});
  EXPECT_EQ(by_profile.failure(), "out of memory on host w2: batch 129, 128 fit");
}

TEST(World, MakesAGenerationOfWhoeverIsThere) {
  auto what = quiet_scenario(4);
  worker(what, 1).leave_at_seconds = 0.05;
  worker(what, 2).join_at_seconds = 6;
  worker(what, 3).join_at_seconds = 5; // while the second generation starts
  world cluster(what, 1);
  EXPECT_THAT(cluster.present(), ElementsAre(0, 1));
  EXPECT_EQ(cluster.run_window(batches{64, 64}, {}).generation, 1U);
  EXPECT_EQ(cluster.generation(), 2U);
  EXPECT_THAT(cluster.present(), ElementsAre(0, 3));
  EXPECT_NEAR(cluster.now_seconds(), computing_seconds(64) + world::restart_seconds, 1e-12);
  while (cluster.generation() == 2)
    cluster.run_window(batches{64, 64}, {});
  EXPECT_THAT(cluster.present(), ElementsAre(0, 2, 3));
  EXPECT_GE(cluster.now_seconds(), 6 + world::restart_seconds);
  const auto shard = cluster.run_window(batches{8, 16, 32}, {});
  EXPECT_EQ(shard.generation, 3U);
  EXPECT_EQ(shard.expected, 3U);
  EXPECT_EQ(shard.reports[1].host, "w2");
  EXPECT_EQ(shard.reports[1].rank, 2U) << "as in training, a host keeps its rank";
  EXPECT_EQ(shard.reports[1].batch, 16U);
  EXPECT_THROW(cluster.run_window(batches{64, 64}, {}), std::invalid_argument);
}

TEST(World, FailsWhenNobodyIsThere) {
  auto what = quiet_scenario(1);
  worker(what, 0).leave_at_seconds = 0.01;
  world cluster(what, 1);
  EXPECT_EQ(cluster.run_window(batches{64}, {}).reports.size(), 1U);
  EXPECT_THAT(cluster.failure(), HasSubstr("no host is there"));
}

/// Slow-downs by the time of the window's end, one a worker.
std::map<double, std::vector<double>> slowdowns_under(std::uint32_t batch) {
  auto what = quiet_scenario(3);
  what.file.simulation.slow_every_seconds = 40;
  what.file.simulation.slow_seconds = 20;
  what.file.simulation.hiccup_rate = 0.1;
  what.file.simulation.noise = 0.1;
  world cluster(what, 5);
  std::map<double, std::vector<double>> seen;
  while (cluster.now_seconds() < 400) {
    cluster.run_window(batches(3, batch), {});
    seen[cluster.now_seconds()] = factors_of(cluster.look());
  }
  return seen;
}

TEST(World, HasTheSameSlowDownsWhateverTheBatchSizesAre) {
  const auto often = slowdowns_under(8);
  int compared = 0;
  for (const auto& [seconds, factors] : slowdowns_under(512)) {
    const auto after = often.lower_bound(seconds);
    if (after == often.begin() || after == often.end() || after->second != std::prev(after)->second)
      continue; // something began or ended about then
    EXPECT_EQ(factors, after->second) << seconds;
    ++compared;
  }
  EXPECT_GT(compared, 100);
}

} // namespace
} // namespace dynamix::simulator
