#pragma once

/// The run as its page reads it; docs/dashboard.md describes the fields for other programs.

#include "ledger/run.hpp"

#include <limits>
#include <string>
#include <vector>

namespace dynamix::dashboard {

struct state_options {
  bool history = true; ///< with the past, not only with what is
  bool means = true;   ///< with the workers' means, where the run has ended
  /// The most of it that is told of all workers together, a signal: neighbours in time are joined until it fits.
  std::size_t worker_cells = std::numeric_limits<std::size_t>::max();
  std::uint64_t position = 0;       ///< in the ledger: the id of the last event that is part of this state
  std::uint64_t remaining = 0;      ///< bytes of the ledger that are not read yet
  std::uint64_t skipped = 0;        ///< bytes of a long ledger that are not read at all
  std::vector<std::string> notices; ///< warnings that are not the run's
};

/// The answer of GET /api/state.
std::string state_json(const ledger::run& run, const state_options& options);

/// What a row changed, as the data of a server-sent event, after the row has been taken.
std::string update_json(const ledger::run& run, const ledger::row& row, const std::vector<std::string>& notices = {});

} // namespace dynamix::dashboard
