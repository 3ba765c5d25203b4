/// What is seen of another process: a child that opens connections and computes.

#include "telemetry/probe.hpp"
#include "tests/unit/telemetry/loopback.hpp"
#include "tests/unit/telemetry/working_child.hpp"

#include <gtest/gtest.h>

#include <ctime>
#include <optional>

namespace dynamix::telemetry {
namespace {

constexpr std::size_t transferred_bytes = 1U << 20;
constexpr double burnt_seconds = 0.2;

class ProcessProbe : public ::testing::Test {
protected:
  void SetUp() override { child_.order('c'); }
  static counters sample(probe& of, double at_seconds) {
    counters into;
    into.monotonic_seconds = at_seconds;
    of.sample(into);
    return into;
  }

  std::optional<loopback_connection> connection_; ///< the child's
  working_child child_{[this](char order) {
    if (order == 'c') {
      connection_.emplace();
      return;
    }
    connection_->transfer(transferred_bytes);
    const auto until = clock() + static_cast<clock_t>(burnt_seconds * CLOCKS_PER_SEC);
    while (clock() < until) {
    }
  }};
};

TEST_F(ProcessProbe, CountsTheBytesOfItsConnections) {
  const loopback_connection of_this_process;
  const auto probe = make_process_tcp_info_probe(child_.process());
  const auto before = sample(*probe, 0);
  ASSERT_TRUE(before.network_valid) << probe->problem();
  of_this_process.transfer(transferred_bytes);
  child_.order();
  const auto after = sample(*probe, 2);
  ASSERT_TRUE(after.network_valid);
  EXPECT_EQ(after.bytes_sent - before.bytes_sent, transferred_bytes);
  EXPECT_EQ(after.bytes_received - before.bytes_received, transferred_bytes);
  EXPECT_EQ(after.control_bytes, 0U);
  EXPECT_EQ(after.connections, 2U) << "both ends are the process's own";
  EXPECT_GT(after.rtt_seconds, 0);
}

TEST_F(ProcessProbe, MeasuresItsTimeAndItsMainThread) {
  const auto probe = make_procfs_probe(child_.process());
  const auto before = sample(*probe, 0);
  ASSERT_TRUE(before.system_valid) << probe->problem();
  child_.order();
  const auto after = sample(*probe, 2);
  ASSERT_TRUE(after.system_valid);
  EXPECT_GE(after.cpu_seconds - before.cpu_seconds, burnt_seconds - 0.03) << "in ticks of 10 ms";
  EXPECT_EQ(after.training_thread, child_.process());
  EXPECT_GE(after.training_cpu_seconds - before.training_cpu_seconds, burnt_seconds - 0.03);
  EXPECT_GT(after.memory_ratio, 0);
  EXPECT_GE(after.page_faults, before.page_faults);
}

TEST_F(ProcessProbe, IsNotValidOnceTheProcessHasEnded) {
  const auto sockets = make_process_tcp_info_probe(child_.process());
  const auto time = make_procfs_probe(child_.process());
  ASSERT_TRUE(sample(*sockets, 0).network_valid);
  child_.end();
  EXPECT_FALSE(sample(*sockets, 2).network_valid);
  EXPECT_FALSE(sample(*time, 2).system_valid);
}

} // namespace
} // namespace dynamix::telemetry
