#pragma once

#include <chrono>
#include <string>

namespace dynamix::node {

/// What has started this process as a service, if it wants to know how it is: sd_notify(3), which is a datagram,
/// without its library.
class service_manager {
public:
  /// As NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID of the environment say.
  service_manager();

  /// Lines of NAME=VALUE, such as "READY=1". Does not wait, and nothing comes of it where nobody wants to know.
  void tell(const std::string& lines) const;
  /// How often the watchdog wants to hear of this process: twice in the time after which it ends it. 0: not at all.
  std::chrono::milliseconds watchdog_interval() const { return watchdog_interval_; }

private:
  std::string socket_; ///< a path, or an abstract name behind '@'; empty: none
  std::chrono::milliseconds watchdog_interval_{0};
};

} // namespace dynamix::node
