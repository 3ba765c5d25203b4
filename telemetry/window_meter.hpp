#pragma once

#include "telemetry/probe.hpp"

#include <memory>
#include <string>
#include <vector>

namespace dynamix::telemetry {

/// Everything that may measure one signal, the best first; without any, the signal is masked.
struct signal_chain {
  signal of = signal::network;
  std::vector<std::unique_ptr<probe>> best_first;
  std::string reason; ///< why nothing better is among them; empty where there is nothing better
};

/// What a host's probes saw in one window.
struct window_measurement {
  messages::network_statistics network;
  messages::system_statistics system;
  messages::gpu_statistics gpu;
  double sampling_seconds = 0; ///< CPU time of the calling thread that closing this window cost
  double program_seconds = 0;  ///< run time of programs in the kernel in this window, all CPUs
  std::string choice;          ///< what measures each signal, and why; empty where nothing has changed
};

/// Cuts a process's life into windows: each ends where the next begins, so nothing falls between two of them. A probe
/// that stops to work gives way to the next of its chain, for good; its signal is masked in that window.
class window_meter {
public:
  /// The first window begins here.
  explicit window_meter(std::vector<signal_chain> chains);
  /// Ends the window that is open and begins the next one.
  window_measurement close_window();

private:
  void sample();
  std::string choice() const;

  std::vector<signal_chain> chains_;
  counters before_;
  counters now_;
  bool chosen_anew_ = true;
};

} // namespace dynamix::telemetry
