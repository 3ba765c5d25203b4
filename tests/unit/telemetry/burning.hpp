#pragma once

#include <ctime>
#include <sched.h>

namespace dynamix::telemetry {

inline double thread_cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// So much of the calling thread's CPU time.
inline void burn(double seconds) {
  for (const double until = thread_cpu_seconds() + seconds; thread_cpu_seconds() < until;) {
  }
}

/// The calling thread, and threads that it starts from then on, have the first core that it may use, and no other.
inline void stay_on_one_core() {
  cpu_set_t allowed;
  sched_getaffinity(0, sizeof(allowed), &allowed);
  int core = 0;
  while (!CPU_ISSET(core, &allowed))
    ++core;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  sched_setaffinity(0, sizeof(one), &one);
}

} // namespace dynamix::telemetry
