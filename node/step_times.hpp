#pragma once

#include "actors/ledger.hpp"

#include <string>
#include <vector>

namespace dynamix::node {

/// Where a worker's steps went over the whole run: means a step, by its windows' steps; of a window that was trained
/// twice the later. Zeros where the ledger is of a release that did not tell.
policy::time_split mean_step_times(const std::vector<actors::ledger_row>& rows, const std::string& host);

/// Adds `count` steps of `each` to `total`.
void add_steps(policy::time_split& total, const policy::time_split& each, double count);

} // namespace dynamix::node
