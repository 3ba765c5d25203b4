#pragma once

/// The files of a run, below one directory:
///   cluster.toml          the resolved cluster file, with the command line's changes
///   windows.jsonl         the ledger
///   summary.json          what came of it
///   epochs.csv            one line an evaluation
///   report.txt            the text of `dynamix-node report`
///   report.html           the same with plots
///   logs/HOST.log         what a host's process said
///   workers/HOST.json     a worker's farewell and evaluations
///   checkpoints/          of the model and of the policy
///   traces/HOST.jsonl     with --trace: what a host did when; joined in trace.json
///   tensorboard/          with --tensorboard: event files
///   policies/             parameters that have decided, by digest

#include "actors/ledger.hpp"
#include "cluster/cluster_file.hpp"
#include "messages/types.hpp"

#include <string>
#include <vector>

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
  std::string tensorboard() const { return path_ + "/tensorboard"; }
  std::string page() const { return path_ + "/report.html"; }
  std::string checkpoints() const { return path_ + "/checkpoints"; }
  std::string policies() const { return path_ + "/policies"; }
  std::string policy() const { return checkpoints() + "/policy.dynamix"; }
  std::string log(const std::string& host) const { return path_ + "/logs/" + host + ".log"; }
  std::string worker(const std::string& host) const { return path_ + "/workers/" + host + ".json"; }

  bool exists() const;
  /// True when it does not exist or holds nothing.
  bool empty() const;
  /// Makes it and the directories below it. Returns an empty string, or what went wrong.
  std::string create() const;

private:
  std::string path_;
};

/// runs/<cluster>-<policy>-<UTC yyyymmdd-hhmmss>
std::string default_run_path(const cluster::cluster_file& file);
/// runs/<name>-<UTC yyyymmdd-hhmmss>
std::string default_run_path(const std::string& name);

/// Writes the resolved file as the run's cluster.toml. Returns an empty string, or what went wrong.
std::string write_cluster_copy(const run_directory& run, const cluster::cluster_file& file);

/// All that a run has written about itself.
struct run_records {
  cluster::cluster_file file;
  std::vector<actors::ledger_row> rows;
  std::vector<messages::farewell> farewells;            ///< from the workers' files, else from the ledger
  std::vector<messages::evaluation_report> evaluations; ///< by step; from the ledger and the workers' files
};
/// Reads what there is; a run may still go on, or have ended badly. `error` says why there is no run to be read.
run_records read_run(const run_directory& run, std::string& error);

} // namespace dynamix::node
