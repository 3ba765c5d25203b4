#include "telemetry/probe.hpp"

#include <gtest/gtest.h>

namespace dynamix::telemetry {
namespace {

counters at(double seconds) {
  counters now;
  now.monotonic_seconds = seconds;
  now.network_valid = true;
  now.system_valid = true;
  return now;
}

TEST(Statistics, DividesTheBytesOfBothDirectionsByTheWindow) {
  counters before = at(10);
  before.bytes_sent = 100;
  before.bytes_received = 1000;
  before.retransmissions = 3;
  counters after = at(14);
  after.bytes_sent = 500;
  after.bytes_received = 2600;
  after.retransmissions = 8;
  after.rtt_seconds = 0.002;
  const auto network = network_between(before, after);
  EXPECT_TRUE(network.valid);
  EXPECT_DOUBLE_EQ(network.throughput_bytes_per_second, 500);
  EXPECT_EQ(network.retransmissions, 5U);
  EXPECT_DOUBLE_EQ(network.rtt_seconds, 0.002);
}

TEST(Statistics, DividesCpuTimeAndWaitsByTheWindow) {
  counters before = at(1);
  before.cpu_seconds = 7;
  before.run_queue_wait_seconds = 1;
  counters after = at(3);
  after.cpu_seconds = 10;
  after.run_queue_wait_seconds = 1.5;
  after.memory_ratio = 0.25;
  const auto system = system_between(before, after);
  EXPECT_TRUE(system.valid);
  EXPECT_DOUBLE_EQ(system.cpu_time_ratio, 1.5);
  EXPECT_DOUBLE_EQ(system.run_queue_wait_ratio, 0.25);
  EXPECT_DOUBLE_EQ(system.memory_ratio, 0.25);
}

TEST(Statistics, IsMaskedWhenEitherSampleIsNotValid) {
  for (const bool first : {true, false}) {
    counters before = at(1);
    counters after = at(2);
    (first ? before : after).network_valid = false;
    (first ? before : after).system_valid = false;
    EXPECT_FALSE(network_between(before, after).valid);
    EXPECT_FALSE(system_between(before, after).valid);
  }
}

TEST(Statistics, IsMaskedForAWindowWithoutLength) {
  for (const double end : {5.0, 4.0}) {
    EXPECT_FALSE(network_between(at(5), at(end)).valid);
    EXPECT_FALSE(system_between(at(5), at(end)).valid);
  }
}

TEST(Statistics, NeverIsNegative) {
  counters before = at(1);
  before.bytes_sent = 10;
  before.retransmissions = 10;
  before.cpu_seconds = 10;
  before.run_queue_wait_seconds = 10;
  counters after = at(2);
  after.bytes_received = 7;
  const auto network = network_between(before, after);
  const auto system = system_between(before, after);
  EXPECT_DOUBLE_EQ(network.throughput_bytes_per_second, 7);
  EXPECT_EQ(network.retransmissions, 0U);
  EXPECT_DOUBLE_EQ(system.cpu_time_ratio, 0);
  EXPECT_DOUBLE_EQ(system.run_queue_wait_ratio, 0);
}

TEST(Statistics, SplitsBytesByPurpose) {
  counters before = at(1);
  counters after = at(3);
  after.bytes_sent = 600;
  after.bytes_received = 400;
  after.control_bytes = 100;
  const auto network = network_between(before, after);
  EXPECT_DOUBLE_EQ(network.throughput_bytes_per_second, 500);
  EXPECT_DOUBLE_EQ(network.control_bytes_per_second, 50);
  EXPECT_DOUBLE_EQ(network.gradient_bytes_per_second, 450);
}

TEST(Statistics, ReadsRoundTripsOfTheWindowFromTheHistogram) {
  counters before = at(1);
  counters after = at(2);
  before.network_source = after.network_source = messages::signal_source::ebpf;
  before.rtts[9 * rtt_octave_buckets] = 1000; // 512 us, all before the window
  after.rtts = before.rtts;
  after.rtts[6 * rtt_octave_buckets + 4] = 97; // from 96 to 104 us
  after.rtts[13 * rtt_octave_buckets] = 3;     // from 8192 us
  after.rtt_samples = 100;
  after.rtt_sum_us = 97 * 100 + 3 * 9000;
  after.congestion_window_sum = 1250;
  const auto network = network_between(before, after);
  EXPECT_NEAR(network.rtt_seconds, 367e-6, 1e-9);
  EXPECT_NEAR(network.rtt_p50_seconds, 100e-6, 4e-6);
  EXPECT_NEAR(network.rtt_p99_seconds, 8704e-6, 512e-6);
  EXPECT_DOUBLE_EQ(network.congestion_window_segments, 12.5);
}

TEST(Statistics, HasNoRoundTripTimeWithoutASample) {
  counters before = at(1);
  counters after = at(2);
  before.network_source = after.network_source = messages::signal_source::ebpf;
  const auto network = network_between(before, after);
  EXPECT_TRUE(network.valid);
  EXPECT_EQ(network.rtt_p99_seconds, 0);
}

TEST(Statistics, KeepsTheSocketsOwnRoundTripTimesWithoutASample) {
  counters before = at(1);
  counters after = at(2);
  before.network_source = after.network_source = messages::signal_source::ebpf;
  after.rtt_p50_seconds = 0.001;
  after.rtt_p99_seconds = 0.002;
  EXPECT_EQ(network_between(before, after).rtt_p99_seconds, 0.002);
}

TEST(Statistics, IsMaskedWhenTheSourceHasChanged) {
  counters before = at(1);
  counters after = at(2);
  after.network_source = messages::signal_source::ebpf;
  after.system_source = messages::signal_source::ebpf;
  EXPECT_FALSE(network_between(before, after).valid);
  EXPECT_FALSE(system_between(before, after).valid);
}

TEST(Statistics, TellsTheTrainingThreadApartOnceItIsKnownAtBothEnds) {
  counters before = at(1);
  counters after = at(3);
  after.training_thread = 77;
  after.training_wait_seconds = 0.5;
  EXPECT_FALSE(system_between(before, after).training_valid);
  before.training_thread = 77;
  before.training_cpu_seconds = 10;
  after.training_cpu_seconds = 11;
  const auto system = system_between(before, after);
  EXPECT_TRUE(system.training_valid);
  EXPECT_DOUBLE_EQ(system.training_cpu_ratio, 0.5);
  EXPECT_DOUBLE_EQ(system.training_wait_ratio, 0.25);
}

TEST(Statistics, HasPressureWithoutTheRest) {
  counters before = at(1);
  counters after = at(2);
  before.system_valid = after.system_valid = false;
  before.pressure_valid = after.pressure_valid = true;
  after.cpu_pressure_ratio = 0.25;
  after.throttled_ratio = 0.125;
  const auto system = system_between(before, after);
  EXPECT_FALSE(system.valid);
  EXPECT_TRUE(system.pressure_valid);
  EXPECT_DOUBLE_EQ(system.cpu_pressure_ratio, 0.25);
  EXPECT_DOUBLE_EQ(system.throttled_ratio, 0.125);
}

} // namespace
} // namespace dynamix::telemetry
