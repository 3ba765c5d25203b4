#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>

namespace dynamix::node {

/// False: `stop` came first.
inline bool sleep_for(const std::stop_token& stop, std::chrono::milliseconds duration) {
  std::mutex mutex;
  std::condition_variable_any waking;
  std::unique_lock lock(mutex);
  return !waking.wait_for(lock, stop, duration, [&] { return stop.stop_requested(); });
}

} // namespace dynamix::node
