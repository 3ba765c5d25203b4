#pragma once

#include <atomic>
#include <unistd.h>

namespace dynamix::telemetry {

/// The thread that trains, whose waits are told apart from those of the others; 0: none yet. A process has one at a
/// time.
inline std::atomic<int> training_thread{0};

/// Called by the thread that trains, before its first step.
inline void mark_training_thread() {
  training_thread.store(gettid(), std::memory_order_relaxed);
}

} // namespace dynamix::telemetry
