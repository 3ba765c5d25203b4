#pragma once

/// How a farewell says that a host leaves while the others train on.

#include "messages/types.hpp"

#include <string_view>

namespace dynamix::messages {

/// Begins the reason of a farewell that has not succeeded. Whoever does not know it takes the worker for one that has
/// failed, and goes on without it all the same.
inline constexpr std::string_view leave_mark = "left: ";

inline bool tells_leave(const farewell& said) {
  return !said.succeeded && said.reason.starts_with(leave_mark);
}

} // namespace dynamix::messages
