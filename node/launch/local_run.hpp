#pragma once

/// A run of a whole cluster on this machine, from the first check to its results: what `local` and `compare` share.

#include "node/launch/launcher.hpp"
#include "node/launch/run_end.hpp"
#include "node/reports/run_records.hpp"

#include <iosfwd>
#include <stop_token>
#include <string>
#include <vector>

namespace dynamix::node {

/// What forbids the file's hosts to run, wherever they are. That they listen beyond loopback does not: they have keys,
/// or somebody has said that they need none.
std::vector<cluster::file_error> check_hosts(const cluster::cluster_file& file);

/// The same, and what this machine says about the file, before anything is started or written. Returns exit_done;
/// after the errors have been written exit_refused, or exit_failed where a port is in use or an address is not this
/// machine's: that may change until the next start.
int check_machine(const cluster::cluster_file& file, std::ostream& err);

/// Makes the directory of a run that begins anew, or goes on under a changed file. Returns an empty string, or what
/// went wrong.
std::string prepare_directory(const run_directory& run, const cluster::cluster_file& file);

/// Why a run that is to go on has nothing left to do under this file; empty: it has. Going on would write over its
/// record.
std::string refuse_finished(const run_directory& run, const cluster::cluster_file& file);

/// The options of a run in `run`, whose program is this one.
launch_options local_options(const cluster::cluster_file& file, const run_directory& run);

/// Prints why there is no page, or has the launcher print its address as soon as it answers.
void tell_page(launch_options& options, live_output& live, const std::string& prefix = "");

struct local_run {
  launch_outcome launched;
  run_summary summary;
  std::string problem; ///< why the results could not be written; empty: they are

  /// What was asked for was done.
  bool succeeded() const { return exit() == exit_done; }
  bool completed() const { return launched.over || summary.completed; }
  exit_code exit() const {
    return exit_of_run(problem.empty() && launched.succeeded && summary.succeeded, completed());
  }
};
/// Launches the hosts, waits for their end and writes the run's results. The directory is prepared. Where the file
/// names no keys, hosts have new ones for as long as the run lasts, unless the file or the options say `insecure`.
local_run run_locally(launch_options options, live_output& live, const std::stop_token& stop);

/// The same of hosts that have been launched, and have ended.
local_run sum_up(const run_directory& run, launch_outcome launched);

/// Prints the tables of a run that is over, or with `json` the workers' alone on `out`, and to `err` what went wrong,
/// with the `hint` of how to go on. Returns the command's exit code.
int report_end(const local_run& made, const run_directory& run, bool json, const std::string& hint, live_output& live,
               std::ostream& out, std::ostream& err);

} // namespace dynamix::node
