#pragma once

/// The user's training processes of a run under faults.

#include "cluster/cluster_file.hpp"
#include "faults/plan.hpp"
#include "node/launch/host_processes.hpp"
#include "node/launch/run_directory.hpp"

#include <chrono>
#include <cstdint>
#include <deque>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

namespace dynamix::node {

/// One for each worker, as systemd or Kubernetes would run them: it begins when its host's agent listens, and again
/// when it has died; who ends well is done. Nothing where the plan has no script. Used from the thread that launches
/// hosts.
class fault_scripts {
public:
  /// `file`: with the hosts that join.
  fault_scripts(const faults::fault_plan& plan, const cluster::cluster_file& file, const run_directory& run);

  /// Starts whoever is due, if `starts`; else training is over, and who ends badly is told of. `trains`: it has begun.
  /// Returns who has ended since the last look, by workers' names.
  std::vector<host_end> look(host_processes& hosts, bool starts, bool trains);
  /// Whether one has died too often for its own reasons: asked before training, when there are no faults yet.
  bool cannot_live() const;

  /// 0 while it has no process.
  pid_t id(const std::string& worker);
  void signal(const std::string& worker, int number);
  void signal_all_of(const std::string& host, int number);
  void hold_down(const std::string& worker, bool held);

  /// Once training is over: waits until all have ended, kills whoever has not in time, and runs the plan's check.
  /// `hurry`: waits for nothing any more. Returns what is wrong with them.
  std::vector<std::string> finish(std::chrono::seconds patience, const std::stop_token& hurry);

private:
  struct entry {
    std::string worker;
    child_options options;
    std::string socket; ///< of its agent
    child_process process;
    bool seen_ended = true;
    bool held = false;
    bool done = false;
    std::uint32_t deaths = 0;
    std::chrono::steady_clock::time_point started;
  };

  entry* find(const std::string& worker);
  /// A command of the plan's, in its directory.
  child_options command(const std::string& text, const std::string& name) const;
  std::string run_check(const std::stop_token& hurry);
  void complain(const entry& of, const child_exit& exit);

  const faults::fault_plan& plan_;
  run_directory run_;
  std::deque<entry> entries_; ///< by rank
  std::vector<std::string> complaints_;
};

} // namespace dynamix::node
