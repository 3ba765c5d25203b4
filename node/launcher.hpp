#pragma once

/// A whole cluster as processes on this machine.

#include "cluster/cluster_file.hpp"
#include "node/child_process.hpp"
#include "node/live_output.hpp"
#include "node/run_directory.hpp"

#include <chrono>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

namespace dynamix::node {

struct launch_options {
  cluster::cluster_file file; ///< resolved; the run directory holds it as cluster.toml
  run_directory run;
  std::string program; ///< dynamix-node itself
  bool insecure = false;
  bool resume = false; ///< from the run directory's newest checkpoint
  bool quiet = false;  ///< no progress
};

struct launch_outcome {
  bool succeeded = false; ///< every worker ended well
  bool stopped = false;   ///< asked to end early
  std::string error;      ///< one line for a person: who died; empty when nobody did
  std::string last_words; ///< the end of its log, of several lines
  std::vector<std::string> warnings;
};

/// Starts `dynamix-node run` for each host, shows the progress that the ledger tells, and waits until all have ended.
/// A worker that dies ends the run; the arbitrator alone does not. Whoever has not ended a bounded time after it should
/// have is asked, and then killed; no process outlives the call.
launch_outcome launch(const launch_options& options, live_output& output, std::stop_token stop);

/// The end of a log, at most `lines` lines, each indented by four spaces.
std::string last_lines(const std::string& path, std::size_t lines);

} // namespace dynamix::node
