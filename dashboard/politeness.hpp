#pragma once

#include <sys/resource.h>

namespace dynamix::dashboard {

inline constexpr int niceness = 10;

/// The calling thread gets the CPU after those that train and decide. (On Linux a thread has a niceness of its own.)
inline void yield_to_training() {
  ::setpriority(PRIO_PROCESS, 0, niceness);
}

} // namespace dynamix::dashboard
