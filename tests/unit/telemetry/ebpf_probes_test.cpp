#include "telemetry/ebpf_probes.hpp"
#include "telemetry/training_thread.hpp"

#include <gtest/gtest.h>

#include <array>

namespace dynamix::telemetry {
namespace {

/// The maps that programs would write to.
class fake_network final : public network_programs {
public:
  std::span<const network_slot> slots() const override { return cpus; }
  std::vector<network_event> take_events() override { return {}; }
  std::uint64_t events_dropped() const override { return 0; }
  void follow(std::span<const std::uint64_t>) override {}

  std::array<network_slot, 2> cpus{};
};

class fake_scheduler final : public scheduler_programs {
public:
  std::span<const scheduler_slot> slots() const override { return cpus; }
  training_clock training() const override { return clock; }
  void follow(int thread) override { followed = thread; }
  void follow_process(int process) override { followed_process = process; }

  std::array<scheduler_slot, 2> cpus{};
  training_clock clock{};
  int followed = 0;
  int followed_process = 0;
};

/// What TCP_INFO and procfs say meanwhile.
class scripted_probe final : public probe {
public:
  explicit scripted_probe(counters& script) : script_(script) {}
  std::string name() const override { return "scripted"; }
  void sample(counters& into) override {
    const double now = into.monotonic_seconds;
    into = script_;
    into.monotonic_seconds = now;
  }

private:
  counters& script_;
};

counters sample_at(probe& of, double seconds) {
  counters into;
  into.monotonic_seconds = seconds;
  of.sample(into);
  return into;
}

class EbpfNetwork : public testing::Test {
protected:
  std::shared_ptr<fake_network> programs_ = std::make_shared<fake_network>();
  counters tcp_info_;
  std::unique_ptr<probe> probe_ = make_ebpf_network_probe(programs_, std::make_unique<scripted_probe>(tcp_info_));
};

TEST_F(EbpfNetwork, AddsUpWhatAllCpusCountedInTheWindow) {
  programs_->cpus[0].bytes_sent = 5000;
  const auto before = sample_at(*probe_, 1);
  for (auto& cpu : programs_->cpus) {
    cpu.cost.runs += 100;
    cpu.bytes_sent += 1100;
    cpu.bytes_received += 3300;
    cpu.control_bytes += 400;
    cpu.segments_sent += 10;
    cpu.retransmissions += 2;
    cpu.resets += 1;
  }
  tcp_info_.connections = 3;
  tcp_info_.sender_blocked_seconds = 0.5;
  const auto network = network_between(before, sample_at(*probe_, 3));
  ASSERT_TRUE(network.valid);
  EXPECT_EQ(network.source, messages::signal_source::ebpf);
  EXPECT_DOUBLE_EQ(network.gradient_bytes_per_second, 4000);
  EXPECT_DOUBLE_EQ(network.control_bytes_per_second, 400);
  EXPECT_EQ(network.segments_sent, 20U);
  EXPECT_EQ(network.retransmissions, 4U);
  EXPECT_EQ(network.connection_resets, 2U);
  EXPECT_EQ(network.connections, 3U);
  EXPECT_DOUBLE_EQ(network.sender_blocked_ratio, 0.25);
}

TEST_F(EbpfNetwork, HasFailedWhenBytesMoveAndNoProgramRuns) {
  programs_->cpus[0].cost.runs = 10;
  EXPECT_TRUE(sample_at(*probe_, 1).network_valid);
  EXPECT_TRUE(sample_at(*probe_, 2).network_valid) << "nothing moves";
  tcp_info_.bytes_sent = 10'000'000;
  EXPECT_FALSE(sample_at(*probe_, 3).network_valid);
}

TEST_F(EbpfNetwork, IsNotJudgedByWhatPassedBeforeItsFirstSample) {
  tcp_info_.bytes_sent = 10'000'000;
  EXPECT_TRUE(sample_at(*probe_, 1).network_valid);
}

TEST_F(EbpfNetwork, GoesOnWhenBytesMoveAndProgramsRun) {
  for (int second = 1; second < 5; ++second) {
    tcp_info_.bytes_received += 10'000'000;
    ++programs_->cpus[1].cost.runs;
    EXPECT_TRUE(sample_at(*probe_, second).network_valid);
  }
}

class EbpfScheduler : public testing::Test {
protected:
  EbpfScheduler() { training_thread = 4711; }
  ~EbpfScheduler() override { training_thread = 0; }

  std::shared_ptr<fake_scheduler> programs_ = std::make_shared<fake_scheduler>();
  counters procfs_;
  std::unique_ptr<probe> probe_ = make_ebpf_scheduler_probe(programs_, std::make_unique<scripted_probe>(procfs_));
};

TEST_F(EbpfScheduler, MayBeSampledBeforeTheFirstSwitch) {
  EXPECT_TRUE(sample_at(*probe_, monotonic_seconds()).system_valid);
  EXPECT_FALSE(sample_at(*probe_, monotonic_seconds() + 1).system_valid);
}

TEST_F(EbpfScheduler, AddsUpTheWaitsOfAllCpus) {
  programs_->cpus[0].cost.runs = 1;
  const auto before = sample_at(*probe_, 10);
  for (auto& cpu : programs_->cpus) {
    ++cpu.cost.runs;
    cpu.activity_ns[thread_waiting] += 250'000'000;
    cpu.involuntary_switches += 5;
  }
  procfs_.cpu_seconds = 1;
  const auto system = system_between(before, sample_at(*probe_, 11));
  ASSERT_TRUE(system.valid);
  EXPECT_EQ(system.source, messages::signal_source::ebpf);
  EXPECT_DOUBLE_EQ(system.run_queue_wait_ratio, 0.5);
  EXPECT_EQ(system.involuntary_switches, 10U);
  EXPECT_DOUBLE_EQ(system.cpu_time_ratio, 1);
  EXPECT_EQ(programs_->followed, 4711);
}

TEST_F(EbpfScheduler, CountsTheTrainingThreadsPresentActivityToTheMoment) {
  programs_->cpus[0].cost.runs = 1;
  programs_->clock.activity_ns[thread_running] = 1'000'000'000;
  programs_->clock.activity = thread_waiting;
  programs_->clock.ahead_ns = -3'000'000'000; // the scheduler's clock began earlier
  programs_->clock.since_ns = 12'500'000'000;
  const auto before = sample_at(*probe_, 10); // has waited for half a second
  programs_->cpus[0].cost.runs = 2;
  programs_->clock.activity_ns[thread_waiting] = 600'000'000;
  programs_->clock.activity = thread_running;
  programs_->clock.since_ns = 13'100'000'000;
  const auto system = system_between(before, sample_at(*probe_, 12));
  ASSERT_TRUE(system.training_valid);
  EXPECT_NEAR(system.training_wait_ratio, 0.05, 1e-9);
  EXPECT_NEAR(system.training_cpu_ratio, 0.95, 1e-9);
}

TEST_F(EbpfScheduler, HasFailedWhenNoProgramRunsInAWindow) {
  programs_->cpus[0].cost.runs = 5;
  EXPECT_TRUE(sample_at(*probe_, 10).system_valid);
  EXPECT_TRUE(sample_at(*probe_, 10.1).system_valid) << "too short to tell";
  EXPECT_FALSE(sample_at(*probe_, 11).system_valid);
}

TEST_F(EbpfScheduler, MeasuresAnotherProcessOnceItHasBeenSeenAndUntilItEnds) {
  procfs_.system_valid = true;
  const auto probe = make_ebpf_scheduler_probe(programs_, std::make_unique<scripted_probe>(procfs_), 42);
  EXPECT_EQ(programs_->followed_process, 42);
  programs_->clock.process = 41; // the one before
  ++programs_->cpus[0].cost.runs;
  EXPECT_EQ(sample_at(*probe, 10).training_thread, 0);
  programs_->clock.process = 42;
  ++programs_->cpus[0].cost.runs;
  const auto seen = sample_at(*probe, 11);
  EXPECT_TRUE(seen.system_valid);
  EXPECT_EQ(seen.training_thread, 42);
  EXPECT_EQ(programs_->followed, 0) << "this process's training thread is nobody's affair";
  procfs_.system_valid = false;
  ++programs_->cpus[0].cost.runs;
  EXPECT_FALSE(sample_at(*probe, 12).system_valid) << "it has ended, although programs run";
}

TEST(RunSeconds, ExtrapolatesFromTheRunsThatWereTimed) {
  EXPECT_EQ(run_seconds({}), 0);
  EXPECT_DOUBLE_EQ(run_seconds({.runs = 6400, .timed_runs = 100, .timed_ns = 7000}), 448e-6);
}

} // namespace
} // namespace dynamix::telemetry
