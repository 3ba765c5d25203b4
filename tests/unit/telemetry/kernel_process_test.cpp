// What the programs count of another process, against what the kernel says of it. Needs root and BTF; skipped
// elsewhere.

#include "telemetry/ebpf_probes.hpp"
#include "telemetry/survey.hpp"
#include "telemetry/training_thread.hpp"
#include "tests/unit/telemetry/burning.hpp"
#include "tests/unit/telemetry/loopback.hpp"
#include "tests/unit/telemetry/needs_bpf.hpp"
#include "tests/unit/telemetry/working_child.hpp"

#include <atomic>
#include <chrono>
#include <fmt/core.h>
#include <optional>
#include <sched.h>
#include <sys/mount.h>
#include <thread>

namespace dynamix::telemetry {
namespace {

constexpr std::size_t megabyte = 1'000'000;
constexpr double burnt_seconds = 0.3;

class KernelProcess : public needs_bpf {};

counters sample_at(probe& of, double seconds) {
  counters into;
  into.monotonic_seconds = seconds;
  of.sample(into);
  return into;
}

counters sample(probe& of) {
  return sample_at(of, monotonic_seconds());
}

/// Until the programs have seen the process's main thread, which they do at its next switch.
bool is_seen(probe& by, const working_child& child) {
  constexpr int tries = 5000;
  for (int i = 0; i < tries && sample(by).training_thread != child.process(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return sample(by).training_thread == child.process();
}

/// Orders: c connects, t transfers a megabyte, a aborts the connection.
class talker {
public:
  void operator()(char order) {
    if (order == 'c')
      connection_.emplace();
    else if (order == 't')
      connection_->transfer(megabyte);
    else
      connection_->abort();
  }

private:
  std::optional<loopback_connection> connection_;
};

/// The main thread and another one, which share a core. Orders: b begins, w lets both of them burn.
class sharing_threads {
public:
  void operator()(char order) {
    if (order == 'b') {
      stay_on_one_core();
      second_ = std::thread([this] {
        for (int round = 0;; ++done_) {
          while (rounds_ == round)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          ++round;
          burn(burnt_seconds);
        }
      });
      return;
    }
    ++rounds_;
    burn(burnt_seconds);
    while (done_ < rounds_)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

private:
  std::atomic<int> rounds_ = 0;
  std::atomic<int> done_ = 0;
  std::thread second_; // in the child, which ends without an end of its threads
};

TEST_F(KernelProcess, SamplesTheRttsOfItsConnectionsAndOfNobodyElses) {
  const auto session = open_kernel_session_of_another();
  ASSERT_TRUE(session->network) << session->network_problem;
  talker talks;
  const working_child child([&](char order) { talks(order); });
  child.order('c');
  const auto kernel = make_ebpf_connection_probe(session->network, child.process());
  const auto before = sample(*kernel);
  ASSERT_TRUE(before.network_valid) << kernel->problem();
  const loopback_connection ours;
  ours.transfer(megabyte);
  const auto between = sample(*kernel);
  EXPECT_EQ(between.rtt_samples, before.rtt_samples);
  child.order('t');
  const auto after = sample(*kernel);
  const auto network = network_between(between, after);
  ASSERT_TRUE(network.valid);
  EXPECT_EQ(network.source, messages::signal_source::ebpf);
  EXPECT_GT(after.rtt_samples, between.rtt_samples);
  EXPECT_GT(network.rtt_p50_seconds, 0);
  EXPECT_GE(network.rtt_p99_seconds, network.rtt_p50_seconds);
  EXPECT_GT(network.congestion_window_segments, 0);
  EXPECT_EQ(after.bytes_sent - between.bytes_sent, megabyte);
  EXPECT_EQ(network.connections, 2U) << "both ends are the process's own";
  EXPECT_EQ(after.resets, 0U);
  child.order('a');
  EXPECT_EQ(sample(*kernel).resets, 2U) << "one at each end";
}

TEST_F(KernelProcess, GivesWayForConnectionsThatAreOlderThanThePrograms) {
  talker talks;
  const working_child child([&](char order) { talks(order); });
  child.order('c');
  const auto session = open_kernel_session_of_another();
  ASSERT_TRUE(session->network) << session->network_problem;
  const auto kernel = make_ebpf_connection_probe(session->network, child.process());
  EXPECT_TRUE(sample_at(*kernel, 100).network_valid);
  child.order('t');
  child.order('t');
  EXPECT_TRUE(sample_at(*kernel, 101).network_valid) << "they may not have been entered yet";
  const auto later = sample_at(*kernel, 104);
  if (later.rtt_samples > 0)
    GTEST_SKIP() << "another process's programs have made the kernel tell of these connections";
  EXPECT_FALSE(later.network_valid);
  EXPECT_NE(kernel->problem().find("older than the programs"), std::string::npos) << kernel->problem();
}

TEST_F(KernelProcess, WaitsForACpuAsSchedstatSaysOfIt) {
  const auto session = open_kernel_session_of_another();
  ASSERT_TRUE(session->scheduler) << session->scheduler_problem;
  sharing_threads threads;
  const working_child child([&](char order) { threads(order); });
  const auto kernel = make_ebpf_scheduler_probe(session->scheduler, make_usage_probe(child.process()), child.process());
  const auto procfs = make_procfs_probe(child.process());
  child.order('b');
  ASSERT_TRUE(is_seen(*kernel, child));
  // Around the kernel's account and within it: this thread may be kept waiting between two readings.
  const auto outer_before = sample(*kernel);
  const auto told_before = sample(*procfs);
  const auto inner_before = sample(*kernel);
  ASSERT_TRUE(inner_before.system_valid) << kernel->problem();
  child.order('w');
  const auto inner_after = sample(*kernel);
  const auto told_after = sample(*procfs);
  const auto outer_after = sample(*kernel);
  const auto agree = [&](auto counter) {
    constexpr double slack_seconds = 0.01;
    const double told = told_after.*counter - told_before.*counter;
    EXPECT_GE(outer_after.*counter - outer_before.*counter, 0.95 * told - slack_seconds);
    EXPECT_LE(inner_after.*counter - inner_before.*counter, 1.05 * told + slack_seconds);
    return told;
  };
  EXPECT_GT(agree(&counters::run_queue_wait_seconds), 0.5 * burnt_seconds);
  agree(&counters::training_wait_seconds);
  EXPECT_GE(agree(&counters::training_cpu_seconds), 0.9 * burnt_seconds);
  EXPECT_GT(outer_after.involuntary_switches, outer_before.involuntary_switches);
  EXPECT_TRUE(system_between(inner_before, inner_after).training_valid);
}

TEST_F(KernelProcess, IsFoundWithoutPrivilegesWhenItComesLater) {
  const auto problem = in_child([]() -> std::string {
    const auto session = open_kernel_session_of_another();
    if (const auto kept = drop_privileges(); !kept.empty())
      return kept;
    for (int life = 0; life < 2; ++life) { // the one after it, too
      talker talks;
      const working_child child([&](char order) { talks(order); });
      child.order('c');
      window_meter meter(choose_sources_of(child.process(), {.ebpf = true}, session.get()));
      child.order('t');
      meter.close_window(); // in which it was found
      child.order('t');
      const auto measured = meter.close_window();
      if (measured.network.source != messages::signal_source::ebpf || measured.network.rtt_p50_seconds <= 0 ||
          measured.system.source != messages::signal_source::ebpf || !measured.system.training_valid)
        return "nothing was measured: " + measured.choice + session->network_problem + session->scheduler_problem;
    }
    return "";
  });
  EXPECT_EQ(problem, "");
}

TEST_F(KernelProcess, IsFoundByItsNumberInANamespaceOfProcesses) {
  // A process that makes a namespace of processes stays outside; its child is the first in it.
  const auto problem = in_child([]() -> std::string {
    if (::unshare(CLONE_NEWPID | CLONE_NEWNS) != 0)
      return "skip: no namespace of processes";
    return in_child([]() -> std::string {
      if (::mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
          ::mount("proc", "/proc", "proc", 0, nullptr) != 0)
        return "skip: no /proc of its own";
      std::string refused;
      const std::shared_ptr<scheduler_programs> programs = load_scheduler_programs(refused);
      if (!programs)
        return refused;
      mark_training_thread();
      const auto own = make_ebpf_scheduler_probe(programs, make_usage_probe());
      sample(*own);
      std::this_thread::sleep_for(std::chrono::milliseconds(1)); // a switch, from which it is counted
      const auto own_before = sample(*own);
      burn(burnt_seconds);
      const auto own_seconds = sample(*own).training_cpu_seconds - own_before.training_cpu_seconds;
      const working_child child([](char) { burn(burnt_seconds); });
      const auto kernel = make_ebpf_scheduler_probe(programs, make_usage_probe(child.process()), child.process());
      child.order();
      if (!is_seen(*kernel, child))
        return "it was not found";
      const auto before = sample(*kernel);
      child.order();
      const auto after = sample(*kernel);
      const auto seconds = after.training_cpu_seconds - before.training_cpu_seconds;
      // Half: a busy kernel may refuse a switch its storage, and the slice counts as waiting then. Who is not found has
      // 0.
      if (own_seconds < 0.5 * burnt_seconds || seconds < 0.5 * burnt_seconds ||
          after.training_thread != child.process())
        return fmt::format("{} s of its own, {} s of process {}", own_seconds, seconds, child.process());
      return "";
    });
  });
  if (problem.starts_with("skip"))
    GTEST_SKIP() << problem;
  EXPECT_EQ(problem, "");
}

} // namespace
} // namespace dynamix::telemetry
