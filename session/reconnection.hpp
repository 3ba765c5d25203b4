#pragma once

/// Which arbitrator's host is tried next, and when. Knows no CAF, no clock and no socket.

#include <cstddef>
#include <string>
#include <vector>

namespace dynamix::session {

struct reconnection_options {
  std::vector<std::string> hosts;      ///< at least one; tried in turn
  double first_delay_seconds = 0.02;   ///< after a round of all hosts; doubles up to the longest
  double longest_delay_seconds = 0.25; ///< so soon a dead arbitrator that is back is found
  double first_seconds = 0;            ///< until one was reached the first is tried alone, for so long
};

class reconnection {
public:
  reconnection() = default;
  reconnection(reconnection_options options, double now_seconds)
      : options_(std::move(options)), began_seconds_(now_seconds) {}

  /// Index of the host to try now.
  std::size_t target() const { return target_; }
  void reached();
  /// The host was not reached, or was lost again. Seconds until the next attempt: none to the next host, a pause after
  /// each round of all.
  double failed(double now_seconds);
  /// The host that was reached does not lead: to the one named, or, where that is empty or unknown, as after a failure.
  double redirected(const std::string& leader, double now_seconds);

private:
  reconnection_options options_;
  double began_seconds_ = 0;
  std::size_t target_ = 0;
  std::size_t failures_ = 0; ///< in a row
  double delay_seconds_ = 0;
  bool was_reached_ = false;
};

} // namespace dynamix::session
