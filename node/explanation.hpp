#pragma once

/// Why a worker got its batch size: one window of the ledger, in sentences. Pure.

#include "actors/ledger.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dynamix::node {

/// What became of a decision: the first window that ran under it.
struct decision_effect {
  std::uint64_t window = 0;
  policy::reward_terms reward;
};

/// One worker's part of a decided window.
struct worker_explanation {
  actors::ledger_worker row;
  std::optional<decision_effect> effect; ///< nothing: it never came into force
};

struct window_explanation {
  actors::ledger_start start; ///< of the arbitrator's life that decided
  actors::ledger_window window;
  double at_seconds = 0;
  std::vector<worker_explanation> workers;
};

/// The last time that `window` was decided on (a resumed run decides again), for all workers or for the one of that
/// name. `error` says what is not there, and which windows are.
window_explanation explain(const std::vector<actors::ledger_row>& rows, std::uint64_t window, const std::string& worker,
                           std::string& error);

std::string to_text(const window_explanation& explanation);
/// An array with an object for each worker.
std::string to_json(const window_explanation& explanation);

} // namespace dynamix::node
