#pragma once

#include "policy/judged_window.hpp"

#include <cstdint>
#include <string>

namespace dynamix::node {

/// One worker over the whole run. Times are means over its steps.
struct worker_summary {
  std::string host;
  std::uint32_t rank = 0;
  double compute_slowdown = 1; ///< at the start
  bool slowdown_changes = false;
  std::uint32_t first_batch = 0;
  std::uint32_t last_batch = 0;
  double mean_batch = 0; ///< samples a step
  std::uint64_t samples = 0;
  double steps = 0; ///< that its reports tell of
  double share = 0; ///< of all workers' samples, [0, 1]
  double step_seconds = 0;
  double compute_seconds = 0;
  double exchange_seconds = 0;
  double data_seconds = 0;
  policy::time_split time; ///< what held a step up
};

/// Adds `count` steps of `each` to `total`.
void add_steps(policy::time_split& total, const policy::time_split& each, double count);

} // namespace dynamix::node
