#pragma once

/// The processes of a swarm: starts those that decide and those that hold workers, leads them to the end, and ends
/// whoever is left.

#include "node/experiments/swarm_report.hpp"
#include "node/launch/child_process.hpp"
#include "swarm/conductor.hpp"

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

namespace dynamix::node {

struct swarm_level {
  std::string name;
  std::vector<child_options> processes;
  std::vector<std::uint16_t> ports; ///< that they listen on when they are ready
};

struct swarm_run_options {
  std::vector<swarm_level> deciding; ///< from the root on
  std::vector<child_options> parts;  ///< standard input is theirs to the conductor
  swarm::conductor_options conductor;
  bool orderly_end = false; ///< those that decide get time to write their results
};

struct swarm_run {
  swarm::swarm_outcome outcome; ///< with a failure where something went wrong
  std::vector<level_usage> levels;
};

/// What happens, for a person: a line at a time, the last one final.
using swarm_told = std::function<void(const std::string& line)>;

swarm_run run_swarm(const swarm_run_options& options, const swarm_told& told, const std::stop_token& stop);

} // namespace dynamix::node
