#pragma once

/// All runs of a comparison, made or kept, and its tables.

#include "node/experiments/comparison.hpp"
#include "node/experiments/comparison_inputs.hpp"
#include "node/launch/live_output.hpp"

#include <stop_token>
#include <string>
#include <vector>

namespace dynamix::node {

struct compared_policies {
  std::vector<comparison> tables; ///< one a cluster; none after a problem or a stop
  std::string problem;            ///< why a directory cannot be used; nothing was begun
  bool stopped = false;           ///< asked to end early
  std::size_t finished = 0;       ///< runs
  std::size_t failed = 0;         ///< runs that count as never reaching the target, and are repeated the next time
};

/// Makes the runs that are not there yet: those of static-best's search first, then those with what it found. Throws
/// std::runtime_error when something cannot be written.
compared_policies compare_policies(const compare_arguments& arguments, const comparison_inputs& inputs,
                                   live_output& live, std::stop_token stop);

/// Writes comparison.json and, where the program has the page, report.html into inputs.out. Returns the page's path;
/// empty without one. Throws std::runtime_error when something cannot be written.
std::string write_comparison(const comparison_inputs& inputs, const std::vector<comparison>& tables,
                             const std::string& command);

} // namespace dynamix::node
