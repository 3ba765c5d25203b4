#pragma once

/// A run as text tables. Pure.

#include "node/summary.hpp"

#include <string>
#include <vector>

namespace dynamix::node {

/// The cells of the tables below, header first; none where there is nothing.
std::vector<std::vector<std::string>> worker_rows(const run_summary& summary);
std::vector<std::vector<std::string>> evaluation_rows(const run_records& records);
/// One row a worker: slow-down, batch sizes, samples and their share, where a step's time went.
std::string workers_table(const run_summary& summary);
/// The rows of workers_table as a JSON array.
std::string workers_json(const run_summary& summary);
/// Accuracy, time, decisions, overhead, warnings; a line each.
std::string result_block(const run_summary& summary);
/// Result, evaluations, workers, batch sizes over time.
std::string report_text(const run_records& records, const run_summary& summary);

} // namespace dynamix::node
