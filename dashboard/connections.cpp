#include "dashboard/connections.hpp"

#include <sys/socket.h>

namespace dynamix::dashboard {

void connections::cut(time_point now) {
  auto excess = all_.size() > limits_.most ? all_.size() - limits_.most : 0;
  for (const auto& one : all_) {
    const bool reading = one.phase == connection_phase::reading;
    const bool late =
        one.phase != connection_phase::streaming && now - one.since > (reading ? limits_.reading : limits_.answering);
    if (!late && !(reading && excess > 0))
      continue;
    excess -= excess > 0 ? 1 : 0;
    ::shutdown(one.socket, SHUT_RDWR);
  }
}

} // namespace dynamix::dashboard
