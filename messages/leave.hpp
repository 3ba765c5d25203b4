#pragma once

/// How a host says that it leaves while the others train on, or that it was stopped.

#include "messages/types.hpp"

#include <string_view>

namespace dynamix::messages {

/// Begins the reason of a farewell that has not succeeded. Whoever does not know it takes the worker for one that has
/// failed, and goes on without it all the same.
inline constexpr std::string_view leave_mark = "left: ";

/// Begins the reason of who was stopped while there was nothing to end in order: before training, or between two
/// generations. Nothing has failed.
inline constexpr std::string_view stop_mark = "stopped: ";

/// The reason of a good farewell of who was stopped in training: the run may be resumed.
inline constexpr std::string_view stopped_reason = "stopped";

inline bool tells_leave(const farewell& said) {
  return !said.succeeded && said.reason.starts_with(leave_mark);
}

/// Nothing is left to train.
inline bool tells_completion(const farewell& said) {
  return said.succeeded && said.reason != stopped_reason;
}

} // namespace dynamix::messages
