#pragma once

#include "node/reports/run_records.hpp"

#include <string>
#include <vector>

namespace dynamix::node {

/// What whoever watched a run knew at its end, and no other record tells.
struct run_end_told {
  run_observations observed;
  std::string failure; ///< the run's reason, whatever its records say; empty: they say it
};

run_summary summarise_ended(const run_records& records, run_end_told told);

/// Sums a run up from its records and writes summary.json, epochs.csv, report.txt and report.html. `observed` is what
/// whoever watched it knows; a `failure` that is not empty is the run's reason, whatever its records say. Returns an
/// empty string, or what went wrong.
std::string write_results(const run_directory& run, run_observations observed, const std::string& failure,
                          run_summary& summary);

/// As the results that are there have it; nothing where the run has gone on since.
run_end_told read_end_told(const run_directory& run);

} // namespace dynamix::node
