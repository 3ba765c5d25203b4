#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace dynamix::simulator {

/// Calls `work(i)` for every i below `count`, on `jobs` threads including this one. The first exception is thrown on
/// once all of them have ended; what had not begun by then is left out.
template <class Work>
void for_each_index(std::size_t count, std::uint32_t jobs, Work work) {
  std::atomic<std::size_t> next = 0;
  std::exception_ptr failure;
  std::mutex failure_mutex;
  const auto take = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        const std::lock_guard lock(failure_mutex);
        if (!failure)
          failure = std::current_exception();
        next = count;
      }
    }
  };
  {
    std::vector<std::jthread> helpers;
    for (std::size_t i = 1; i < std::min<std::size_t>(jobs, count); ++i)
      helpers.emplace_back(take);
    take();
  }
  if (failure)
    std::rethrow_exception(failure);
}

} // namespace dynamix::simulator
