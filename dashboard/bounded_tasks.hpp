#pragma once

#include "dashboard/politeness.hpp"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <httplib.h>
#include <iterator>
#include <list>
#include <mutex>
#include <system_error>
#include <thread>

namespace dynamix::dashboard {

/// Threads that serve connections, `threads_max` at most: one is started where a task finds none idle, and ends when it
/// had nothing to do for `idle_max`. Where all are busy and `waiting_max` connections wait, no further one is accepted:
/// the rest waits in the kernel's backlog.
class bounded_tasks final : public httplib::TaskQueue {
public:
  bounded_tasks(std::size_t threads_max, std::size_t waiting_max,
                std::chrono::milliseconds idle_max = std::chrono::seconds(10))
      : threads_max_(threads_max), waiting_max_(waiting_max), idle_max_(idle_max) {}

  void enqueue(std::function<void()> task) override {
    std::unique_lock lock(mutex_);
    join_ended();
    room_.wait(lock, [this] { return tasks_.size() < waiting_max_ || ending_; });
    tasks_.push_back(std::move(task)); // at the end too: a task owns its socket
    if (tasks_.size() > idle_ && threads_.size() < threads_max_)
      start();
    work_.notify_one();
  }

  void shutdown() override {
    std::unique_lock lock(mutex_);
    ending_ = true;
    work_.notify_all();
    room_.notify_all();
    none_.wait(lock, [this] { return threads_.empty(); });
    join_ended();
  }

  /// That there are now.
  std::size_t threads() const {
    const std::scoped_lock lock(mutex_);
    return threads_.size();
  }

  /// Of these, those that have nothing to do.
  std::size_t idle() const {
    const std::scoped_lock lock(mutex_);
    return idle_;
  }

private:
  using place = std::list<std::thread>::iterator;

  // All of these with `mutex_` held.
  void start() {
    const auto own = threads_.emplace(threads_.end());
    try {
      *own = std::thread([this, own] { work(own); });
    } catch (const std::system_error&) { // the machine has no thread left: those that run serve it, or the next tries
      threads_.erase(own);
    }
  }
  void join_ended() {
    for (auto& thread : ended_)
      thread.join(); // it has left its last critical section, or is about to
    ended_.clear();
  }
  bool wait_for_work(std::unique_lock<std::mutex>& lock) {
    ++idle_;
    work_.wait_for(lock, idle_max_, [this] { return !tasks_.empty() || ending_; });
    --idle_;
    return !tasks_.empty();
  }

  void work(place own) {
    yield_to_training("page-serve");
    std::unique_lock lock(mutex_);
    while (wait_for_work(lock)) {
      const auto task = std::move(tasks_.front());
      tasks_.pop_front();
      room_.notify_one();
      lock.unlock();
      task();
      lock.lock();
    }
    ended_.splice(ended_.end(), threads_, own);
    none_.notify_all();
  }

  const std::size_t threads_max_;
  const std::size_t waiting_max_;
  const std::chrono::milliseconds idle_max_;
  mutable std::mutex mutex_;
  std::condition_variable work_; ///< to do, or the end
  std::condition_variable room_; ///< for a waiting connection
  std::condition_variable none_; ///< of the threads is left
  std::deque<std::function<void()>> tasks_;
  std::size_t idle_ = 0;
  bool ending_ = false;
  std::list<std::thread> threads_;
  std::list<std::thread> ended_; ///< to be joined
};

} // namespace dynamix::dashboard
