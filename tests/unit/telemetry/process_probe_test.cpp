/// What is seen of another process: a child that opens connections and computes.

#include "telemetry/probe.hpp"
#include "tests/unit/telemetry/loopback.hpp"

#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <ctime>
#include <memory>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace dynamix::telemetry {
namespace {

constexpr std::size_t transferred_bytes = 1U << 20;
constexpr double burnt_seconds = 0.2;

/// Does its work each time that it is told to, and says when it is done.
class ProcessProbe : public ::testing::Test {
protected:
  void SetUp() override {
    ASSERT_EQ(pipe(orders_.data()), 0);
    ASSERT_EQ(pipe(done_.data()), 0);
    child_ = fork();
    if (child_ == 0)
      work();
    char byte = 0;
    ASSERT_EQ(read(done_[0], &byte, 1), 1);
  }
  void TearDown() override {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
    for (const int end : {orders_[0], orders_[1], done_[0], done_[1]})
      close(end);
  }
  void order() const {
    char byte = 0;
    ASSERT_EQ(write(orders_[1], &byte, 1), 1);
    ASSERT_EQ(read(done_[0], &byte, 1), 1);
  }
  static counters sample(probe& of, double at_seconds) {
    counters into;
    into.monotonic_seconds = at_seconds;
    of.sample(into);
    return into;
  }

  pid_t child_ = 0;

private:
  [[noreturn]] void work() const {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const loopback_connection connection;
    char byte = 0;
    while (write(done_[1], &byte, 1) == 1 && read(orders_[0], &byte, 1) == 1) {
      connection.transfer(transferred_bytes);
      const auto until = clock() + static_cast<clock_t>(burnt_seconds * CLOCKS_PER_SEC);
      while (clock() < until) {
      }
    }
    _exit(0);
  }

  std::array<int, 2> orders_{};
  std::array<int, 2> done_{};
};

TEST_F(ProcessProbe, CountsTheBytesOfItsConnections) {
  const loopback_connection of_this_process;
  const auto probe = make_process_tcp_info_probe(child_);
  const auto before = sample(*probe, 0);
  ASSERT_TRUE(before.network_valid) << probe->problem();
  of_this_process.transfer(transferred_bytes);
  order();
  const auto after = sample(*probe, 2);
  ASSERT_TRUE(after.network_valid);
  EXPECT_EQ(after.bytes_sent - before.bytes_sent, transferred_bytes);
  EXPECT_EQ(after.bytes_received - before.bytes_received, transferred_bytes);
  EXPECT_EQ(after.control_bytes, 0U);
  EXPECT_EQ(after.connections, 2U) << "both ends are the process's own";
  EXPECT_GT(after.rtt_seconds, 0);
}

TEST_F(ProcessProbe, MeasuresItsTimeAndItsMainThread) {
  const auto probe = make_procfs_probe(child_);
  const auto before = sample(*probe, 0);
  ASSERT_TRUE(before.system_valid) << probe->problem();
  order();
  const auto after = sample(*probe, 2);
  ASSERT_TRUE(after.system_valid);
  EXPECT_GE(after.cpu_seconds - before.cpu_seconds, burnt_seconds - 0.03) << "in ticks of 10 ms";
  EXPECT_EQ(after.training_thread, child_);
  EXPECT_GE(after.training_cpu_seconds - before.training_cpu_seconds, burnt_seconds - 0.03);
  EXPECT_GT(after.memory_ratio, 0);
  EXPECT_GE(after.page_faults, before.page_faults);
}

TEST_F(ProcessProbe, IsNotValidOnceTheProcessHasEnded) {
  const auto sockets = make_process_tcp_info_probe(child_);
  const auto time = make_procfs_probe(child_);
  ASSERT_TRUE(sample(*sockets, 0).network_valid);
  kill(child_, SIGKILL);
  waitpid(child_, nullptr, 0);
  EXPECT_FALSE(sample(*sockets, 2).network_valid);
  EXPECT_FALSE(sample(*time, 2).system_valid);
}

} // namespace
} // namespace dynamix::telemetry
