#pragma once

#include <cstdint>
#include <ctime>

namespace dynamix::swarm {

inline constexpr std::int64_t ns_per_ms = 1'000'000;

/// CLOCK_MONOTONIC, one for all processes of a machine, in nanoseconds: what every latency of a swarm is taken on.
inline std::int64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

inline void sleep_until_ns(std::int64_t at_ns) {
  const timespec until{.tv_sec = at_ns / 1'000'000'000, .tv_nsec = at_ns % 1'000'000'000};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) != 0) {
  }
}

} // namespace dynamix::swarm
