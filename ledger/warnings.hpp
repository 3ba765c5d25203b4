#pragma once

/// What an operator should know of a run, as sentences with their figures and what to do. One set of rules, for a run
/// that goes on and for one that is over. Pure.

#include "ledger/run.hpp"

#include <string>
#include <vector>

namespace dynamix::ledger {

struct run_records;
struct run_summary;

inline constexpr std::size_t warnings_shown = 20;

/// While the run goes on: who is not there now, a loss that is not finite, telemetry above 1 % of the time, late
/// reports, a batch size stuck at a bound, a guard that steps in all the time, a reward that collapses, exploration
/// that ends early, and what somebody wrote into the ledger. At most `warnings_shown`.
std::vector<std::string> find_warnings(const run& run);
/// When it is over: the same of the whole run, and what its account shows: lost decisions, workers that disagree, lost
/// contact.
std::vector<std::string> find_warnings(const run_records& records, const run_summary& summary);

} // namespace dynamix::ledger
