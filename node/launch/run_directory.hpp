#pragma once

/// The files of a run, below one directory:
///   cluster.toml          the resolved cluster file, with the command line's changes
///   windows.jsonl         the ledger; windows-BEGIN.jsonl.gz its older parts
///   summary.json          what came of it
///   epochs.csv            one line per evaluation
///   report.txt            the text of `dynamix-node report`
///   report.html           the run as a page
///   logs/HOST.log         what a host's process said
///   workers/HOST.json     a worker's farewell and evaluations; of several of a host HOST+0.json and so on
///   checkpoints/          of the model and of the policy
///   traces/HOST.jsonl     with --trace: what a host did when; joined in trace.json
///   control/HOST.sock     where `arbitrators` reaches the host that holds the root, and the root's other replicas
///   shards.json           which shards of a tree take workers, where that is not as planned and no replicas know it
///   agents/SLOT.sock      where training processes join, if they are clients
///   policies/             parameters that have decided, by digest
///   observed/             what `exec --observe` has seen of each training process, and its estimate

#include "cluster/cluster_file.hpp"

#include <cstddef>
#include <fmt/core.h>
#include <memory>
#include <string>
#include <utility>

namespace dynamix::node {

class run_directory {
public:
  explicit run_directory(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  std::string cluster_file() const { return path_ + "/cluster.toml"; }
  std::string ledger() const { return path_ + "/windows.jsonl"; }
  std::string summary() const { return path_ + "/summary.json"; }
  std::string epochs() const { return path_ + "/epochs.csv"; }
  std::string report() const { return path_ + "/report.txt"; }
  std::string trace() const { return path_ + "/trace.json"; }
  std::string page() const { return path_ + "/report.html"; }
  std::string checkpoints() const { return path_ + "/checkpoints"; }
  std::string policies() const { return path_ + "/policies"; }
  std::string policy() const { return checkpoints() + "/policy.dynamix"; }
  std::string observed() const { return path_ + "/observed"; }
  std::string agents() const { return path_ + "/agents"; }
  std::string agent(std::size_t slot) const { return fmt::format("{}/{}.sock", agents(), slot); }
  std::string log(const std::string& host) const { return path_ + "/logs/" + host + ".log"; }
  std::string worker(const std::string& name) const {
    return path_ + "/workers/" + cluster::file_name_of(name) + ".json";
  }

  bool exists() const;
  /// True when it does not exist or holds nothing.
  bool empty() const;
  /// Makes it and the directories below it. Returns an empty string, or what went wrong.
  std::string create() const;

private:
  friend run_directory make_default_run(const std::string& name);

  std::string path_;
  std::shared_ptr<const void>
      made_; ///< of a default one: where it is still empty when the last copy goes, it goes, too
};

/// Of a command that reads a run: why that is none. Empty: there is the cluster file or the ledger of one.
std::string why_no_run(const run_directory& run);
/// The same, and the run's cluster file.
std::string read_cluster_of(const run_directory& run, cluster::cluster_file& file);

/// Makes runs/<cluster>-<policy>-<UTC yyyymmdd-hhmmss>. Where another run was begun in the same second, "-2" follows,
/// and so on. A directory that cannot be made is left to `create`, which says why; one that nobody wrote into, since
/// the start was refused, goes with the last copy of what is returned.
run_directory make_default_run(const cluster::cluster_file& file);
/// runs/<name>-<UTC yyyymmdd-hhmmss>
run_directory make_default_run(const std::string& name);

/// Writes the resolved file as the run's cluster.toml. Returns an empty string, or what went wrong.
std::string write_cluster_copy(const run_directory& run, const cluster::cluster_file& file);
/// The same where the run has none, or one with other values.
std::string keep_cluster_copy(const run_directory& run, const cluster::cluster_file& file);

/// Throws std::runtime_error where something could not be written: a disk that takes no more files ends the command.
void require_written(const std::string& problem);

} // namespace dynamix::node
