#pragma once

/// All that a run has written about itself, read row by row: a ledger of a day is larger than memory.

#include "ledger/summary.hpp"
#include "node/experiments/run_outcome.hpp"
#include "node/launch/run_directory.hpp"

#include <optional>
#include <string>
#include <vector>

namespace dynamix::node {

using ledger::run_observations;
using ledger::run_summary;
using ledger::summarise;
using ledger::worker_summary;

struct run_records : ledger::run_records {
  explicit run_records(cluster::cluster_file of = {}) : ledger::run_records(std::move(of)), recorder(file) {}
  /// A window goes into the folds only.
  void add(const ledger::row& row);

  run_recorder recorder;
};

/// What a worker's host has written at its end.
struct worker_file {
  messages::farewell farewell;
  std::vector<messages::evaluation_report> evaluations;
};
/// Nothing where there is none, or none that is whole.
std::optional<worker_file> read_worker_file(const std::string& path);

/// Reads what there is; a run may still go on, or have ended badly. `error` says why there is no run to be read.
run_records read_run(const run_directory& run, std::string& error);

} // namespace dynamix::node
