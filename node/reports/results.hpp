#pragma once

#include "node/reports/run_records.hpp"

#include <string>
#include <vector>

namespace dynamix::node {

/// Sums a run up from its records and writes summary.json, epochs.csv, report.txt and report.html. `observed` is what
/// whoever watched it knows; a `failure` that is not empty is the run's reason, whatever its records say. Returns an
/// empty string, or what went wrong.
std::string write_results(const run_directory& run, run_observations observed, const std::string& failure,
                          run_summary& summary);

} // namespace dynamix::node
