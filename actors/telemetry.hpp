#pragma once

#include "actors/interfaces.hpp"
#include "cluster/cluster_file.hpp"
#include "telemetry/window_meter.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

namespace dynamix::actors {

/// Completes the worker's reports with what the machine and the network did in the same window.
struct telemetry_state {
  static constexpr const char* name = "telemetry";
  std::unique_ptr<dynamix::telemetry::window_meter> meter;
  aggregator_actor upstream;
  std::chrono::milliseconds upstream_timeout{0};
  double seconds_spent = 0; ///< CPU time of all measurements
};

telemetry_actor::behavior_type telemetry(telemetry_actor::stateful_pointer<telemetry_state> self,
                                         std::vector<cluster::telemetry_source> sources,
                                         std::chrono::milliseconds upstream_timeout);

} // namespace dynamix::actors
