#pragma once

/// How a worker's training ended, and the reasons by which older senders and ledgers say so.

#include "messages/types.hpp"

#include <string_view>

namespace dynamix::messages {

/// Begins the reason of a farewell of who has left. A farewell, and a run's end, have it still, for older readers.
inline constexpr std::string_view leave_mark = "left: ";

/// Begins the reason of who was stopped while there was nothing to end in order: nothing has failed.
inline constexpr std::string_view stop_mark = "stopped: ";

/// The reason of a good farewell of who was stopped in training.
inline constexpr std::string_view stopped_reason = "stopped";

/// Never unspecified.
inline farewell_end end_of(const farewell& said) {
  if (said.end != farewell_end::unspecified)
    return said.end;
  if (said.succeeded)
    return said.reason == stopped_reason ? farewell_end::stopped : farewell_end::completed;
  if (said.reason.starts_with(leave_mark))
    return farewell_end::left;
  return said.reason.starts_with(stop_mark) ? farewell_end::cancelled : farewell_end::failed;
}

inline bool tells_leave(const farewell& said) {
  return end_of(said) == farewell_end::left;
}

inline bool tells_completion(const farewell& said) {
  return end_of(said) == farewell_end::completed;
}

/// Before the end of training, without a failure.
inline bool tells_stop(const farewell& said) {
  return end_of(said) == farewell_end::stopped || end_of(said) == farewell_end::cancelled;
}

} // namespace dynamix::messages
