#pragma once

#include "dashboard/politeness.hpp"

#include <condition_variable>
#include <deque>
#include <functional>
#include <httplib.h>
#include <mutex>
#include <thread>
#include <vector>

namespace dynamix::dashboard {

/// Threads that serve connections. Where all are busy and `waiting_max` connections wait, no further one is accepted:
/// the rest waits in the kernel's backlog.
class bounded_tasks final : public httplib::TaskQueue {
public:
  bounded_tasks(std::size_t threads, std::size_t waiting_max) : waiting_max_(waiting_max) {
    for (std::size_t i = 0; i < threads; ++i)
      threads_.emplace_back([this] { work(); });
  }

  void enqueue(std::function<void()> task) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return tasks_.size() < waiting_max_ || ending_; });
    tasks_.push_back(std::move(task)); // at the end too: a task owns its socket
    changed_.notify_all();
  }

  void shutdown() override {
    {
      const std::scoped_lock lock(mutex_);
      ending_ = true;
      changed_.notify_all();
    }
    for (auto& thread : threads_)
      thread.join();
  }

private:
  void work() {
    yield_to_training("page-serve");
    for (std::unique_lock lock(mutex_);;) {
      changed_.wait(lock, [this] { return !tasks_.empty() || ending_; });
      if (tasks_.empty())
        return;
      auto task = std::move(tasks_.front());
      tasks_.pop_front();
      changed_.notify_all();
      lock.unlock();
      task();
      lock.lock();
    }
  }

  const std::size_t waiting_max_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

} // namespace dynamix::dashboard
