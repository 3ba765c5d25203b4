#pragma once

#include "node/summary.hpp"

#include <string>
#include <vector>

namespace dynamix::node {

/// Sums a run up from its records and writes summary.json, epochs.csv and report.txt. `warnings` are those of whoever
/// watched it; a `failure` that is not empty is the run's reason, whatever its records say. Returns an empty string, or
/// what went wrong.
std::string write_results(const run_directory& run, std::vector<std::string> warnings, const std::string& failure,
                          run_summary& summary);

} // namespace dynamix::node
