#include "telemetry/probe.hpp"
#include "telemetry/training_thread.hpp"
#include "tests/unit/telemetry/burning.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <sys/sysinfo.h>
#include <thread>
#include <time.h>
#include <vector>

namespace dynamix::telemetry {
namespace {

counters sample(probe& of, double at_seconds = 0) {
  counters into;
  into.monotonic_seconds = at_seconds;
  of.sample(into);
  return into;
}

TEST(ProcfsProbe, CountsTheCpuTimeOfAThreadThatHasEnded) {
  const auto probe = make_procfs_probe();
  const counters before = sample(*probe);
  std::thread(burn, 0.3).join();
  const counters after = sample(*probe);
  ASSERT_TRUE(before.system_valid);
  ASSERT_TRUE(after.system_valid);
  EXPECT_NEAR(after.cpu_seconds - before.cpu_seconds, 0.3, 0.05);
}

TEST(ProcfsProbe, SeesTwoBusyThreadsWaitForOneCoreAndKeepsTheirWaits) {
  const auto probe = make_procfs_probe();
  const counters before = sample(*probe);
  std::atomic<int> busy = 2;
  std::atomic<bool> end = false;
  std::vector<std::thread> threads;
  for (int index = 0; index < 2; ++index)
    threads.emplace_back([&] {
      stay_on_one_core();
      burn(0.2);
      --busy;
      while (!end)
        std::this_thread::yield();
    });
  while (busy > 0)
    std::this_thread::yield();
  const counters during = sample(*probe);
  end = true;
  for (auto& each : threads)
    each.join();
  const counters after = sample(*probe);
  // While the first of the two burned its 0.2 s, the other waited or burned on the same core.
  EXPECT_GT(during.run_queue_wait_seconds - before.run_queue_wait_seconds, 0.1);
  EXPECT_GE(after.run_queue_wait_seconds, during.run_queue_wait_seconds);
}

TEST(ProcfsProbe, FindsAThreadThatCameAsAnotherWent) {
  const auto probe = make_procfs_probe();
  std::atomic<bool> end_first = false;
  std::thread first([&] { end_first.wait(false); });
  EXPECT_EQ(sample(*probe).training_thread, 0);
  end_first = true;
  end_first.notify_one();
  first.join();
  std::atomic<bool> end = false;
  std::atomic<bool> marked = false;
  std::thread second([&] {
    mark_training_thread();
    burn(0.01);
    marked = true;
    marked.notify_one();
    end.wait(false);
  });
  marked.wait(false);
  const counters after = sample(*probe);
  EXPECT_EQ(after.training_thread, training_thread.load());
  EXPECT_GE(after.training_cpu_seconds, 0.01);
  end = true;
  end.notify_one();
  second.join();
  training_thread = 0;
}

TEST(ProcfsProbe, SeesMemoryGrowAndShrink) {
  constexpr std::size_t bytes = 256U << 20;
  struct sysinfo machine {};
  ASSERT_EQ(sysinfo(&machine), 0);
  const double share = static_cast<double>(bytes) / (static_cast<double>(machine.totalram) * machine.mem_unit);
  const auto probe = make_procfs_probe();
  const double before = sample(*probe).memory_ratio;
  auto block = std::make_unique_for_overwrite<char[]>(bytes);
  std::memset(block.get(), 1, bytes);
  const double held = sample(*probe, 0.9 * slow_signal_seconds).memory_ratio;
  const double during = sample(*probe, slow_signal_seconds).memory_ratio;
  block.reset();
  const double after = sample(*probe, 2 * slow_signal_seconds).memory_ratio;
  EXPECT_EQ(held, before) << "it is not read in each window";
  EXPECT_GT(before, 0);
  EXPECT_LT(during, 1);
  EXPECT_NEAR(during - before, share, 0.1 * share);
  EXPECT_NEAR(after - before, 0, 0.1 * share);
}

} // namespace
} // namespace dynamix::telemetry
