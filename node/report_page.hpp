#pragma once

/// A run as one self-contained HTML file. Pure.

#include "node/summary.hpp"

#include <string>

namespace dynamix::node {

/// Plots and tables of the report, the cluster file, versions and warnings. `made_with`: this program's version.
std::string report_page(const run_records& records, const run_summary& summary, const std::string& made_with);

} // namespace dynamix::node
