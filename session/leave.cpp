#include "session/leave.hpp"

#include <spdlog/fmt/fmt.h>

namespace dynamix::session {

host_stop decide_host_stop(bool one_host, const host_roles& roles) {
  if (!one_host)
    return {false, "training stops at the next agreement of the workers"};
  if (roles.arbitrates && !roles.replicated)
    return {false, "training stops at the next agreement of the workers: this host alone arbitrates"};
  return {true, "this host leaves, the others go on"};
}

leave_decision decide_leave(double now_seconds, double asked_seconds, std::size_t members,
                            const cluster::timeouts& timeouts) {
  if (members == 0)
    return {leave_step::go, "it was between two generations"};
  if (members == 1)
    return {leave_step::stop, "training stops: nobody would be left to go on"};
  if (1000 * (now_seconds - asked_seconds) <= timeouts.silence_ms)
    return {leave_step::ask, "at the next agreement"};
  return {leave_step::drop,
          fmt::format("no agreement came within {} ms, so the step in flight is dropped", timeouts.silence_ms)};
}

} // namespace dynamix::session
