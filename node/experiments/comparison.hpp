#pragma once

/// Policies side by side on one cluster file: figures over seeds, ratios, and who is the best rival. Pure.

#include "node/experiments/run_outcome.hpp"
#include "node/experiments/statistics.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dynamix::node {

struct sheet_section;

/// One policy's runs, a seed each; all policies of a comparison have the same seeds in the same order.
struct policy_runs {
  std::string policy;
  std::uint32_t static_batch = 0; ///< of static-best; else 0
  std::vector<run_outcome> runs;
};

/// One policy in the table. A ratio is of mean seconds to the target, below 1 where this policy is the faster; there is
/// none where a run of either never reached it.
struct comparison_row {
  policy_runs of;
  std::size_t reached = 0;    ///< runs that reached the target
  estimate seconds_to_target; ///< of those
  estimate final_accuracy;    ///< of the runs that did not fail, as all below
  estimate samples_per_second;
  estimate decisions;
  estimate interventions;
  std::optional<estimate> to_static;
  std::optional<estimate> to_static_best;
  std::optional<estimate> to_best_rival; ///< of lb-bsp, omnilearn and goodput the one with the lowest mean
  std::optional<estimate> to_oracle;
  std::optional<estimate> to_step_oracle;

  bool reached_always() const { return !of.runs.empty() && reached == of.runs.size(); }
};

struct comparison {
  std::string cluster;
  std::string path; ///< of the cluster file
  double target_accuracy = 0;
  bool simulated = false;
  std::string best_rival;         ///< empty: none was compared, or none reached the target always
  std::vector<std::string> notes; ///< sentences for below the table
  std::vector<comparison_row> rows;
  std::vector<std::string> warnings;
};

/// Fills in rows and warnings. The rest of `empty` is the caller's.
comparison compare(comparison empty, std::vector<policy_runs> policies);

/// Of the seeds in which the reward rises: the episode in which it reaches its plateau (statistics.hpp, course_of).
std::vector<double> plateaus_of(const policy_runs& of);

/// "static-best (128)"
std::string label_of(const policy_runs& of);

/// Who was first and by how much, against static (else the slowest) and against the next, and whether the intervals
/// overlap: "ppo reached 88.00 % 1.94 times sooner than static (52.5 s and 102.0 s; their intervals do not overlap)."
std::string verdict_of(const comparison& of);
/// The sentence, the table and the warnings.
std::string to_text(const comparison& of);
/// Ratios to static, a row per cluster, and their median; empty for fewer than two.
std::string closing_text(const std::vector<comparison>& all);
/// An array of rows, one a cluster and policy. What is not known is null.
std::string to_json(const std::vector<comparison>& all);
/// The tables and charts of a page, a section a cluster.
std::vector<sheet_section> sections_of(const std::vector<comparison>& all);
/// That page, in one file; empty where the program was built without it.
std::string to_page(const std::vector<comparison>& all, const std::string& command);

/// The table's cells, header first, and the closing table's.
std::vector<std::vector<std::string>> cells_of(const comparison& of);
std::vector<std::vector<std::string>> closing_cells(const std::vector<comparison>& all);

} // namespace dynamix::node
