#include "examples.hpp"
#include "messages/codec.hpp"
#include "simulator/world.hpp"

#include <gtest/gtest.h>

#include <cmath>

/// What the reports of a world say.
namespace dynamix::simulator {
namespace {

using testing::computing_seconds;
using testing::quiet_scenario;
using testing::worker;

using batches = std::vector<std::uint32_t>;

scenario lively_scenario() {
  auto what = quiet_scenario(3);
  auto& options = what.file.simulation;
  options.noise = 0.1;
  options.hiccup_rate = 0.1;
  options.slow_every_seconds = 10;
  options.slow_seconds = 5;
  options.congest_every_seconds = 10;
  options.congest_seconds = 5;
  options.loss_rate = 0.01;
  options.latency_us = 100;
  what.file.arbitrator.window_steps = 10;
  what.workload.gradient_mib = 4;
  what.workload.phi_noise = 0.3;
  worker(what, 2).leave_at_seconds = 30;
  return what;
}

std::vector<messages::shard_report> run(const scenario& what, std::uint64_t seed, int windows) {
  world cluster(what, seed);
  std::vector<messages::shard_report> shards;
  for (int i = 0; i < windows; ++i)
    shards.push_back(cluster.run_window(batches(cluster.present().size(), 64), {.term = 1, .window = 1}));
  return shards;
}

TEST(Reports, AreBitIdenticalForASeedAndOthersForAnother) {
  const auto what = lively_scenario();
  EXPECT_EQ(run(what, 1, 60), run(what, 1, 60));
  const auto one = run(what, 1, 1)[0].reports[0].training;
  const auto other = run(what, 2, 1)[0].reports[0].training;
  EXPECT_NE(one.compute_seconds, other.compute_seconds);
  EXPECT_NE(one.accuracy, other.accuracy);
  EXPECT_NE(one.noise_scale, other.noise_scale);
}

TEST(Reports, PassTheCodec) {
  for (const auto& shard : run(lively_scenario(), 3, 60)) {
    const auto encoded = messages::encode(shard);
    ASSERT_TRUE(encoded) << encoded.error().text;
    const auto decoded = messages::decode(*encoded);
    ASSERT_TRUE(decoded) << decoded.error().text;
    EXPECT_EQ(std::get<messages::shard_report>(*decoded), shard);
  }
}

TEST(Reports, CountWindowsStepsSamplesAndEpochs) {
  auto what = quiet_scenario(2);
  what.file.arbitrator.window_steps = 10;
  what.workload.epoch_samples = 3000;
  const auto shards = run(what, 1, 3);
  EXPECT_EQ(shards[0].window, 1U);
  EXPECT_EQ(shards[0].reports[0].first_step, 0U);
  const auto& report = shards[2].reports[1];
  EXPECT_EQ(report.host, "w1");
  EXPECT_EQ(report.rank, 1U);
  EXPECT_EQ(report.window, 3U);
  EXPECT_EQ(report.generation, 1U);
  EXPECT_EQ(report.first_step, 20U);
  EXPECT_FALSE(report.final);
  EXPECT_EQ(report.batch, 64U);
  EXPECT_EQ(report.decision, (messages::decision_key{.term = 1, .window = 1}));
  EXPECT_EQ(report.global_batch, 128U);
  EXPECT_EQ(report.epoch, 1U);
  EXPECT_EQ(report.epoch_samples, 3840U - 3000U);
  EXPECT_NEAR(report.elapsed_seconds, 30 * computing_seconds(64), 1e-9);
  EXPECT_EQ(report.training.steps, 10U);
  EXPECT_EQ(report.training.samples, 640U);
}

TEST(Reports, TimeTheBatchSizesInForceOnly) {
  auto what = quiet_scenario(2);
  what.file.arbitrator.window_steps = 10;
  world cluster(what, 1);
  const auto report = cluster.run_window(batches{32, 128}, {}, batches{64, 16}).reports[0];
  EXPECT_NEAR(cluster.now_seconds(), 2 * computing_seconds(64) + 8 * computing_seconds(128), 1e-12);
  EXPECT_NEAR(report.elapsed_seconds, cluster.now_seconds(), 1e-12);
  EXPECT_NEAR(report.training.compute_seconds, computing_seconds(32), 1e-12);
  EXPECT_NEAR(report.training.iteration_seconds, computing_seconds(128), 1e-12);
  EXPECT_EQ(report.training.samples, 2U * 64 + 8 * 32);
  EXPECT_EQ(report.global_batch, 160U);
  EXPECT_EQ(cluster.samples(), 2U * 80 + 8 * 160);
  EXPECT_NEAR(report.system.cpu_time_ratio,
              (2 * computing_seconds(64) + 8 * computing_seconds(32)) / cluster.now_seconds(), 1e-12);
  const double progress = 2 * 80 * 1256.0 / 1080 + 8 * 160 * 1256.0 / 1160;
  EXPECT_NEAR(cluster.progress(), progress / 60000, 1e-12);
}

TEST(Reports, TellTheGradientSNoiseOnceItIsKnown) {
  const auto shards = run(quiet_scenario(2), 1, 10); // windows of one step
  EXPECT_FALSE(shards[8].reports[0].training.gradient_valid);
  EXPECT_EQ(shards[8].reports[0].training.noise_scale, 0);
  const auto& known = shards[9].reports[0].training;
  EXPECT_TRUE(known.gradient_valid);
  EXPECT_DOUBLE_EQ(known.noise_scale, 1000);
  EXPECT_DOUBLE_EQ(known.sigma2_norm, 1000.0 / 64);
  EXPECT_DOUBLE_EQ(known.sigma_norm, std::sqrt(1000.0 / 64));
  EXPECT_DOUBLE_EQ(known.gradient_norm, std::sqrt(1 + 1000.0 / 128));
  EXPECT_DOUBLE_EQ(known.gain, 1); // at B0
  EXPECT_DOUBLE_EQ(known.learning_rate, 0.05);
}

/// As in training (client/gradient_noise.hpp): it is known from how the workers' gradients differ.
TEST(Reports, TellNoNoiseOfAWorkerAlone) {
  auto what = quiet_scenario(2);
  worker(what, 1).leave_at_seconds = 20 * computing_seconds(64);
  const auto shards = run(what, 1, 40);
  EXPECT_TRUE(shards[15].reports[0].training.gradient_valid);
  ASSERT_EQ(shards[39].reports.size(), 1U);
  EXPECT_FALSE(shards[39].reports[0].training.gradient_valid);
  EXPECT_EQ(shards[39].reports[0].training.noise_scale, 0);
}

TEST(Reports, MeasurePhiWithAnErrorThatStaysAWhile) {
  auto what = quiet_scenario(2);
  what.workload.phi_noise = 0.5;
  double sum = 0;
  double squares = 0;
  double products = 0;
  double before = 0;
  constexpr int windows = 20'000;
  for (const auto& shard : run(what, 1, windows)) {
    const auto& training = shard.reports[0].training;
    const double error = training.gradient_valid ? std::log(training.noise_scale / 1000) / 0.5 : 0;
    sum += error;
    squares += error * error;
    products += error * before;
    before = error;
  }
  EXPECT_NEAR(sum / windows, 0, 0.15);
  EXPECT_NEAR(squares / windows, 1, 0.15);
  EXPECT_NEAR(products / squares, 0.97, 0.01);
}

TEST(Reports, ScatterAccuracyAsTheirSamplesDo) {
  auto what = quiet_scenario(1);
  what.workload.accuracy_start = 0.5;
  what.workload.accuracy_epochs = 1e6; // stays there
  double squares = 0;
  constexpr int windows = 5000;
  for (const auto& shard : run(what, 1, windows))
    squares += std::pow(shard.reports[0].training.accuracy - 0.5, 2);
  EXPECT_NEAR(std::sqrt(squares / windows), std::sqrt(0.25 / 64), 0.003);
}

TEST(Reports, TellOfNetworkAndMachine) {
  auto what = quiet_scenario(2);
  what.workload.gradient_mib = 1;
  what.file.simulation.latency_us = 250;
  what.file.simulation.loss_rate = 0.1;
  worker(what, 1).emulate = {{.at_seconds = 0, .compute_slowdown = 2}};
  const auto reports = run(what, 1, 1)[0].reports;
  const double seconds = reports[0].training.iteration_seconds;
  EXPECT_TRUE(reports[0].network.valid);
  EXPECT_NEAR(reports[0].network.throughput_bytes_per_second, 2 * 1048576 / seconds, 1e-3);
  EXPECT_DOUBLE_EQ(reports[0].network.rtt_seconds, 5e-4);
  EXPECT_EQ(reports[0].network.retransmissions, 72U); // a tenth of 1048576/1448
  EXPECT_TRUE(reports[0].system.valid);
  EXPECT_NEAR(reports[0].system.cpu_time_ratio, computing_seconds(64) / seconds, 1e-12);
  EXPECT_NEAR(reports[1].system.cpu_time_ratio, computing_seconds(64) / seconds, 1e-12); // an emulated host sleeps
  EXPECT_NEAR(reports[1].system.run_queue_wait_ratio, 0, 1e-12);
  EXPECT_DOUBLE_EQ(reports[0].system.memory_ratio, 0.2 + 0.5 * 64 / 1024);
}

TEST(Reports, WaitForCoTenantsInTheRunQueue) {
  auto what = quiet_scenario(1);
  what.file.simulation.hiccup_rate = 1;
  const auto report = run(what, 1, 1)[0].reports[0];
  const double factor = report.training.compute_seconds / computing_seconds(64);
  EXPECT_GT(factor, 1.3);
  EXPECT_LT(factor, 4);
  EXPECT_NEAR(report.system.cpu_time_ratio, 1 / factor, 1e-12);
  EXPECT_NEAR(report.system.run_queue_wait_ratio, 1 - 1 / factor, 1e-12);
}

TEST(Reports, LeaveOutWhatIsNotMeasured) {
  auto what = quiet_scenario(1);
  what.file.telemetry_sources.clear();
  const auto report = run(what, 1, 1)[0].reports[0];
  EXPECT_EQ(report.network, messages::network_statistics{});
  EXPECT_EQ(report.system, messages::system_statistics{});
}

} // namespace
} // namespace dynamix::simulator
