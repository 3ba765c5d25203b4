/// What is seen of another process: a child that opens connections and computes.

#include "telemetry/probe.hpp"
#include "tests/unit/telemetry/loopback.hpp"
#include "tests/unit/telemetry/working_child.hpp"

#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <ctime>
#include <optional>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

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

  static void burn_time() {
    const auto until = clock() + static_cast<clock_t>(burnt_seconds * CLOCKS_PER_SEC);
    while (clock() < until) {
    }
  }

  /// In the child: starts a process that burns time and lives on, and returns when it has burnt it.
  void start_worker() {
    std::array<int, 2> done{};
    ASSERT_EQ(::pipe(done.data()), 0);
    worker_ = ::fork();
    char letter = 'd';
    if (worker_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      burn_time();
      if (::write(done[1], &letter, 1) == 1)
        ::pause();
      ::_exit(1);
    }
    EXPECT_EQ(::read(done[0], &letter, 1), 1);
    for (const int end : done)
      ::close(end);
  }

  /// In the child: starts a process that starts another one, which burns time when it is told to.
  void start_workers() {
    std::array<int, 2> orders{};
    std::array<int, 2> done{};
    ASSERT_EQ(::pipe(orders.data()), 0);
    ASSERT_EQ(::pipe(done.data()), 0);
    char letter = 'd';
    worker_ = ::fork();
    if (worker_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::fork() == 0) {
        ::close(orders[1]);
        while (::write(done[1], &letter, 1) == 1 && ::read(orders[0], &letter, 1) == 1)
          burn_time();
        ::_exit(0);
      }
      ::pause();
      ::_exit(1);
    }
    EXPECT_EQ(::read(done[0], &letter, 1), 1);
    worker_orders_ = orders[1];
    worker_answers_ = done[0];
  }

  /// In the child: ends the first of them, and lets the other one burn time.
  void orphan_worker() {
    char letter = 'b';
    ::kill(worker_, SIGKILL);
    ::waitpid(worker_, nullptr, 0);
    EXPECT_EQ(::write(worker_orders_, &letter, 1), 1);
    EXPECT_EQ(::read(worker_answers_, &letter, 1), 1);
  }

  /// In the child: a process that it has started measures it, and burns time.
  void start_agent() {
    const int agent = ::fork();
    if (agent == 0) {
      const auto probe = make_procfs_probe(::getppid());
      const auto before = sample(*probe, 0);
      burn_time();
      const auto after = sample(*probe, 2);
      *seen_seconds_ = after.system_valid ? after.cpu_seconds - before.cpu_seconds : -1;
      ::_exit(0);
    }
    ::waitpid(agent, nullptr, 0);
  }

  void work(char order) {
    switch (order) {
    case 'c':
      connection_.emplace();
      break;
    case 'l':
      start_worker();
      break;
    case 'e':
      ::kill(worker_, SIGKILL);
      ::waitpid(worker_, nullptr, 0);
      break;
    case 'p':
      start_workers();
      break;
    case 'o':
      orphan_worker();
      break;
    case 'a':
      start_agent();
      break;
    default:
      connection_->transfer(transferred_bytes);
      burn_time();
    }
  }

  std::optional<loopback_connection> connection_; ///< the child's
  int worker_ = 0;                                ///< the child's
  int worker_orders_ = -1;                        ///< the child's end of a pipe, as is the next one
  int worker_answers_ = -1;
  double* seen_seconds_ = static_cast<double*>(
      ::mmap(nullptr, sizeof(double), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)); ///< of `start_agent`
  working_child child_{[this](char order) { work(order); }};
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

TEST_F(ProcessProbe, CountsTheTimeOfLoaderWorkersWhileTheyLiveAndBehindTheirEnd) {
  if (::access("/proc/thread-self/children", R_OK) != 0)
    GTEST_SKIP() << "this kernel lists no children (CONFIG_PROC_CHILDREN)";
  const auto probe = make_procfs_probe(child_.process());
  const auto before = sample(*probe, 0);
  child_.order('l');
  const auto living = sample(*probe, 2);
  ASSERT_TRUE(living.system_valid);
  EXPECT_GE(living.cpu_seconds - before.cpu_seconds, burnt_seconds - 0.03);
  EXPECT_LT(living.training_cpu_seconds - before.training_cpu_seconds, burnt_seconds - 0.03);
  child_.order('e');
  const auto ended = sample(*probe, 4);
  EXPECT_GE(ended.cpu_seconds, living.cpu_seconds);
}

TEST_F(ProcessProbe, CountsAWorkerThatTheKernelListsNoMore) {
  if (::access("/proc/thread-self/children", R_OK) != 0)
    GTEST_SKIP() << "this kernel lists no children (CONFIG_PROC_CHILDREN)";
  const auto probe = make_procfs_probe(child_.process());
  child_.order('p');
  const auto before = sample(*probe, 0);
  child_.order('o');
  const auto after = sample(*probe, 2);
  EXPECT_GE(after.cpu_seconds - before.cpu_seconds, burnt_seconds - 0.03);
}

TEST_F(ProcessProbe, LeavesOutAnAgentThatTheProcessHasStarted) {
  child_.order('a');
  EXPECT_GE(*seen_seconds_, 0);
  EXPECT_LT(*seen_seconds_, burnt_seconds - 0.03);
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
