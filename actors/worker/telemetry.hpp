#pragma once

#include "actors/interfaces.hpp"
#include "cluster/cluster_file.hpp"
#include "telemetry/kernel_session.hpp"
#include "telemetry/window_meter.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace dynamix::actors {

struct telemetry_options {
  std::vector<cluster::telemetry_source> sources;
  std::vector<std::uint16_t> control_ports; ///< connections with one of them at either end carry no gradients
  std::shared_ptr<dynamix::telemetry::kernel_session> kernel; ///< null: no eBPF
  /// The process that trains for this one, 0 while there is none; null: this one trains itself.
  std::shared_ptr<const std::atomic<int>> process = {};
};

/// Completes the worker's reports with what the machine and the network did in the same window.
struct telemetry_state {
  static constexpr const char* name = "telemetry";
  telemetry_options options;
  int process = 0; ///< that the meter measures; 0: this one
  std::unique_ptr<dynamix::telemetry::window_meter> meter;
};

telemetry_actor::behavior_type telemetry(telemetry_actor::stateful_pointer<telemetry_state> self,
                                         const telemetry_options& options);

} // namespace dynamix::actors
