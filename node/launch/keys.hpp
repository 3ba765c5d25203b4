#pragma once

/// Where the keys of a run's hosts are.

#include "cluster/cluster_file.hpp"
#include "links/key_directory.hpp"
#include "node/launch/child_process.hpp"
#include "node/launch/run_directory.hpp"

#include <string>
#include <vector>

namespace dynamix::node {

/// The directory that the cluster file names; empty where it names none.
std::string key_directory_of(const cluster::cluster_file& file);

/// A certificate now for each host of the file.
links::key_request key_request_of(const cluster::cluster_file& file);

/// Where a run's own keys are, below its directory.
std::string run_keys(const run_directory& run);

/// Makes keys below the run directory, for a run on this machine whose file names none, and says where in `made`.
/// Returns an empty string, or what went wrong.
std::string make_run_keys(const cluster::cluster_file& file, const run_directory& run, std::string& made);
/// What `make_run_keys` has made is of no use when the run is over.
void remove_run_keys(const run_directory& run);

/// Sees to it that the keys go with this process, also where it is killed: by a process that outlives it, and does
/// nothing else. From one thread, which lives as long as the process.
class run_key_guard {
public:
  run_key_guard() = default;
  run_key_guard(const run_key_guard&) = delete;
  run_key_guard& operator=(const run_key_guard&) = delete;
  ~run_key_guard() { end(); }

  /// Before keys are made. Returns an empty string, or why not.
  std::string begin(const run_directory& run);
  /// They go now.
  void end();

private:
  child_process process_;
  std::string path_; ///< of the run; empty: nothing is guarded
};

/// Why this file's replicas, which speak by keys alone, cannot run; empty where it names keys, or no replicas.
std::string refuse_replicas_without_keys(const cluster::cluster_file& file);

/// Why this host's keys, which the file names, are not to be used; empty where they are, or none are named.
std::string refuse_keys(const cluster::cluster_file& file, const std::string& host);

/// What to tell a person of the keys and of the page's certificate that the file names, as far as they are on this
/// machine.
std::vector<std::string> key_warnings(const cluster::cluster_file& file);

} // namespace dynamix::node
