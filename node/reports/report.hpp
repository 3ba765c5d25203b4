#pragma once

/// A run as text tables and as a page. Pure.

#include "node/reports/run_records.hpp"

#include <string>

namespace dynamix::node {

/// One row per worker: slow-down, batch sizes, samples and their share, where a step's time went.
std::string workers_table(const run_summary& summary);
/// The rows of workers_table as a JSON array.
std::string workers_json(const run_summary& summary);
/// Accuracy, time, decisions, overhead, warnings; a line each.
std::string result_block(const run_summary& summary);
/// Result, evaluations, workers, batch sizes over time.
std::string report_text(const run_records& records, const run_summary& summary);
/// The page of the run in one HTML file (dashboard/inlined_page.hpp): its charts, its workers, the tables of the text,
/// its cluster file and versions. `made_with`: this program's version. Empty where the program has no page.
std::string report_page(const run_records& records, const run_summary& summary, const std::string& made_with);

} // namespace dynamix::node
