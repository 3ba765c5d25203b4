#include "dashboard/bounded_tasks.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

namespace dynamix::dashboard {
namespace {

using std::chrono::milliseconds;

void wait_until(const std::function<bool()>& come_true) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!come_true() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(milliseconds(1));
  EXPECT_TRUE(come_true());
}

/// A task that stays until `leave`.
struct staying_task {
  std::promise<void> open;
  std::shared_future<void> gate = open.get_future().share();
  std::atomic<int> busy{0};

  std::function<void()> task() {
    return [this] {
      ++busy;
      gate.wait();
    };
  }
  void leave() { open.set_value(); }
};

TEST(BoundedTasks, StartsThreadsAsTheyAreNeeded) {
  bounded_tasks tasks(16, 4);
  EXPECT_EQ(tasks.threads(), 0U);
  std::atomic<int> short_ones{0};
  for (int i = 1; i <= 20; ++i) { // one after the other
    tasks.enqueue([&] { ++short_ones; });
    wait_until([&] { return short_ones == i; });
    wait_until([&] { return tasks.idle() == tasks.threads(); });
  }
  EXPECT_LE(tasks.threads(), 4U);
  staying_task long_one;
  for (int i = 1; i <= 5; ++i) // at once
    tasks.enqueue(long_one.task());
  wait_until([&] { return long_one.busy == 5; });
  EXPECT_EQ(tasks.threads(), 5U);
  long_one.leave();
  tasks.shutdown();
}

TEST(BoundedTasks, NeverHasMoreThreadsThanItMayAndServesWhoWaits) {
  bounded_tasks tasks(3, 4);
  staying_task staying;
  for (int i = 0; i < 3; ++i)
    tasks.enqueue(staying.task());
  wait_until([&] { return staying.busy == 3; });
  for (int i = 0; i < 4; ++i)
    tasks.enqueue(staying.task()); // wait
  auto beyond = std::async(std::launch::async, [&] { tasks.enqueue(staying.task()); });
  EXPECT_EQ(beyond.wait_for(milliseconds(50)), std::future_status::timeout) << "no room for a fifth that waits";
  EXPECT_EQ(tasks.threads(), 3U);
  staying.leave();
  beyond.get();
  wait_until([&] { return staying.busy == 8; });
  EXPECT_LE(tasks.threads(), 3U);
  tasks.shutdown();
}

TEST(BoundedTasks, LetsIdleThreadsGoAndStartsOthers) {
  bounded_tasks tasks(4, 4, milliseconds(30));
  std::atomic<int> done{0};
  for (int round = 1; round <= 3; ++round) {
    for (int i = 0; i < 4; ++i)
      tasks.enqueue([&] { ++done; });
    wait_until([&] { return done == 4 * round; });
    wait_until([&] { return tasks.threads() == 0; });
  }
  tasks.shutdown();
}

TEST(BoundedTasks, DoesAtItsEndWhatWasBegunAndWhatWaits) {
  bounded_tasks tasks(2, 8);
  std::atomic<int> done{0};
  for (int i = 0; i < 8; ++i)
    tasks.enqueue([&] {
      std::this_thread::sleep_for(milliseconds(5));
      ++done;
    });
  tasks.shutdown();
  EXPECT_EQ(done, 8);
  EXPECT_EQ(tasks.threads(), 0U);
}

} // namespace
} // namespace dynamix::dashboard
