#include "session/progress_watch.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

namespace dynamix::session {

void progress_watch::entered(double now_seconds) {
  training_ = true;
  progress_seconds_ = looked_seconds_ = now_seconds;
  interrupted_seconds_.reset();
}

void progress_watch::interrupted(double now_seconds) {
  if (training_ && !interrupted_seconds_)
    interrupted_seconds_ = now_seconds;
}

watch_finding progress_watch::look(double now_seconds, std::uint64_t steps, bool orphaned) {
  const double slept = now_seconds - looked_seconds_ - timeouts_.beat_interval_ms / 1000.0;
  looked_seconds_ = now_seconds;
  if (!training_)
    return {};
  if (slept > 0) {
    progress_seconds_ = std::min(now_seconds, progress_seconds_ + slept);
    if (interrupted_seconds_)
      interrupted_seconds_ = std::min(now_seconds, *interrupted_seconds_ + slept);
  }
  const double stall_seconds = timeouts_.stall_timeout_ms / 1000.0;
  if (interrupted_seconds_ && now_seconds - *interrupted_seconds_ > stall_seconds)
    return {watch_verdict::stuck, fmt::format("the training thread has not let go of its generation for {:.0f} s",
                                              now_seconds - *interrupted_seconds_)};
  const double waited = now_seconds - progress_seconds_;
  if (steps != steps_) {
    longest_seconds_ = std::max(longest_seconds_, steps_ == 0 ? 0 : waited);
    steps_ = steps;
    progress_seconds_ = now_seconds;
    return {};
  }
  const double patience_seconds = std::max(4 * timeouts_.silence_ms / 1000.0, 10 * longest_seconds_);
  if (orphaned && !interrupted_seconds_ && waited > patience_seconds)
    return {watch_verdict::cut_off,
            fmt::format("no step has been completed for {:.1f} s and no arbitrator is in reach: this host is cut off, "
                        "or its peers are; training waits for the arbitrator",
                        waited)};
  return {};
}

} // namespace dynamix::session
