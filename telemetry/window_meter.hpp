#pragma once

#include "telemetry/probe.hpp"

#include <memory>
#include <vector>

namespace dynamix::telemetry {

/// What a host's probes saw in one window.
struct window_measurement {
  messages::network_statistics network;
  messages::system_statistics system;
  double sampling_seconds = 0; ///< CPU time of the calling thread that closing this window cost
};

/// Cuts a process's life into windows: each ends where the next begins, so nothing falls between two of them.
class window_meter {
public:
  /// The first window begins here. A signal without a probe is masked in every window.
  explicit window_meter(std::vector<std::unique_ptr<probe>> probes);
  /// Ends the window that is open and begins the next one.
  window_measurement close_window();

private:
  std::vector<std::unique_ptr<probe>> probes_;
  counters before_;
};

} // namespace dynamix::telemetry
