#pragma once

#include <pthread.h>
#include <sys/resource.h>

namespace dynamix::dashboard {

inline constexpr int niceness = 10;

/// The calling thread gets the CPU after those that train and decide (on Linux a thread has a niceness of its own), and
/// a name of at most 15 characters by which its cost can be told.
inline void yield_to_training(const char* name) {
  ::setpriority(PRIO_PROCESS, 0, niceness);
  ::pthread_setname_np(::pthread_self(), name);
}

} // namespace dynamix::dashboard
