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
  std::vector<std::string> hosts; ///< of each process
  std::vector<child_options> processes;
  std::vector<std::uint16_t> ports; ///< that they listen on when they are ready
};

struct swarm_run_options {
  std::vector<swarm_level> deciding; ///< from the root on
  std::vector<child_options> parts;  ///< standard input is theirs to the conductor
  swarm::conductor_options conductor;
  std::uint64_t kill_leader_before =
      0;                    ///< the replica that decides dies before this of the windows that count; 0: never
  std::string ledger;       ///< which says who that is
  bool orderly_end = false; ///< those that decide get time to write their results
};

struct swarm_run {
  swarm::swarm_outcome outcome; ///< with a failure where something went wrong
  std::vector<level_usage> levels;
  std::string killed;            ///< the replica that was killed
  std::vector<float> after_kill; ///< end_to_applied of the window behind that
};

/// What happens, for a person: a line at a time, the last one final.
using swarm_told = std::function<void(const std::string& line)>;

swarm_run run_swarm(const swarm_run_options& options, const swarm_told& told, const std::stop_token& stop);

} // namespace dynamix::node
