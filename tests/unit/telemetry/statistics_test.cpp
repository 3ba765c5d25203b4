#include "telemetry/probe.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace dynamix::telemetry {
namespace {

counters at(double seconds) {
  counters now;
  now.monotonic_seconds = seconds;
  now.network_valid = true;
  now.system_valid = true;
  return now;
}

TEST(statistics, divides_the_bytes_of_both_directions_by_the_window) {
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

TEST(statistics, divides_cpu_time_and_waits_by_the_window) {
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

TEST(statistics, is_masked_when_either_sample_is_not_valid) {
  for (const bool first : {true, false}) {
    counters before = at(1);
    counters after = at(2);
    (first ? before : after).network_valid = false;
    (first ? before : after).system_valid = false;
    EXPECT_FALSE(network_between(before, after).valid);
    EXPECT_FALSE(system_between(before, after).valid);
  }
}

TEST(statistics, is_masked_for_a_window_without_length) {
  for (const double end : {5.0, 4.0}) {
    EXPECT_FALSE(network_between(at(5), at(end)).valid);
    EXPECT_FALSE(system_between(at(5), at(end)).valid);
  }
}

TEST(statistics, never_is_negative) {
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

TEST(survey, finds_both_sources_where_linux_has_them) {
  const auto sources = survey_sources();
  ASSERT_EQ(sources.size(), 2U);
  EXPECT_EQ(sources[0].signal, "network");
  EXPECT_EQ(sources[1].signal, "system");
  for (const auto& each : sources) {
    EXPECT_TRUE(each.available) << each.source << ": " << each.detail;
    EXPECT_FALSE(each.detail.empty());
  }
}

} // namespace
} // namespace dynamix::telemetry
