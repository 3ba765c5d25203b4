#pragma once

/// What a run has written about itself: the fold of its ledger, and what its workers' own files say besides.

#include "ledger/run.hpp"

#include <utility>
#include <vector>

namespace dynamix::ledger {

struct run_records {
  explicit run_records(cluster::cluster_file of = {}) : file(std::move(of)), run(file) {}

  cluster::cluster_file file;
  ledger::run run;
  std::vector<messages::farewell> farewells;            ///< from the workers' files, else from the ledger
  std::vector<messages::evaluation_report> evaluations; ///< by step; from the ledger and the workers' files
};

} // namespace dynamix::ledger
