#pragma once

/// The end of a command that was observed, ran in shadow mode, or was observed once before it joined: what is told of
/// it.

#include "cluster/cluster_file.hpp"
#include "ledger/summary.hpp"
#include "node/launch/run_directory.hpp"

#include <string>
#include <vector>

namespace dynamix::node {

/// What has to be on $PYTHONPATH for a command to be observed: `dynamix exec --observe` puts it there.
bool can_observe();

/// A run and what was asked of it.
struct told_run {
  const run_directory& run;
  const cluster::cluster_file& file;
  const std::vector<std::string>& command;
  const ledger::run_summary& summary;
};

/// What training processes have left in the run directory: a table for the terminal into `table`, and sentences, also
/// for the page. Keeps the estimate there, for `tell_comparison`.
std::vector<std::string> tell_observation(const told_run& told, std::string& table);
/// What the policy would have given the workers in the newest window it decided on; nothing where there is none.
std::vector<std::string> tell_shadow(const told_run& told);
/// How the newest estimate among the runs beside this one, of the same command, compares with this run's speed.
std::vector<std::string> tell_comparison(const told_run& told);

} // namespace dynamix::node
