#pragma once

/// All that a run has written about itself, read row by row: a ledger of a day is larger than memory.

#include "cluster/cluster_file.hpp"
#include "dashboard/live_run.hpp"
#include "messages/types.hpp"
#include "node/run_course.hpp"
#include "node/run_directory.hpp"

#include <optional>
#include <string>
#include <vector>

namespace dynamix::node {

struct run_records {
  explicit run_records(cluster::cluster_file of = {}) : file(std::move(of)), course(file), live(file) {}
  /// A window goes into the folds only.
  void add(const ledger::row& row);

  cluster::cluster_file file;
  run_course course;
  dashboard::live_run live;
  std::vector<ledger::row> rows;                        ///< starts, events and policies
  std::vector<messages::farewell> farewells;            ///< from the workers' files, else from the ledger
  std::vector<messages::evaluation_report> evaluations; ///< by step; from the ledger and the workers' files
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
