#pragma once

/// The plots of one run, which its report, its PNGs and comparisons share. Pure.

#include "node/run_marks.hpp"
#include "node/run_outcome.hpp"
#include "node/summary.hpp"

#include <string>
#include <vector>

namespace dynamix::node {

struct run_plot {
  std::string section; ///< of the page
  std::string name;    ///< as a file's: "batch-sizes"
  std::string svg;
};

/// In the page's order. Plots that a run has nothing for are left out.
std::vector<run_plot> plots_of(const run_records& records, const run_summary& summary, const run_outcome& outcome,
                               const std::vector<run_mark>& marks);

// Those that a comparison draws for each of its policies.
std::string batches_plot(const run_outcome& outcome, const std::string& title, const std::vector<plot_mark>& marks);
std::string step_time_plot(const run_outcome& outcome, const std::string& title, const std::vector<plot_mark>& marks);

} // namespace dynamix::node
