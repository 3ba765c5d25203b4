#pragma once

#include <cerrno>
#include <chrono>
#include <poll.h>

namespace dynamix::storage {

/// Whether one of `events`, or an error, comes before the deadline; signals that come meanwhile do not end it.
inline bool wait_for(int descriptor, short events, std::chrono::steady_clock::time_point deadline) {
  for (auto now = std::chrono::steady_clock::now(); now < deadline; now = std::chrono::steady_clock::now()) {
    pollfd waiting{.fd = descriptor, .events = events, .revents = 0};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now);
    const int ready = ::poll(&waiting, 1, static_cast<int>(left.count()));
    if (ready >= 0 || errno != EINTR)
      return ready > 0;
  }
  return false;
}

} // namespace dynamix::storage
