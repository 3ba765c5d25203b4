#pragma once

/// Why a worker got its batch size: one window of the ledger, in sentences. Pure.

#include "ledger/equal_batches.hpp"
#include "ledger/rows.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dynamix::ledger {

/// What became of a decision: the first window that ran under it.
struct decision_effect {
  std::uint64_t window = 0;
  policy::reward_terms reward;
  std::optional<double> compute_seconds; ///< of a step, this worker's; nothing: not known
};

/// One worker's part of a decided window.
struct worker_explanation {
  ledger::worker row;
  std::optional<decision_effect> effect; ///< nothing: it never came into force
};

/// What the decision came to for all workers together, in the first window that ran under it.
struct window_effect {
  std::uint64_t window = 0;
  std::uint64_t total = 0;  ///< samples per step
  double step_seconds = 0;  ///< of the slowest worker; 0: not known
  double mean_progress = 0; ///< log2 of the goodput over the best that was to be had
};

struct window_explanation {
  ledger::start start; ///< of the arbitrator's life that decided
  ledger::window window;
  double at_seconds = 0;
  std::vector<worker_explanation> workers;
  std::optional<window_effect> effect;
  batch_gain gain; ///< over equal batches
  /// What the generation had told by then of who sums gradients and in which form, and why; the newest last.
  std::vector<std::string> exchange;
};

/// The last time that `window` was decided on (a resumed run decides again), for all workers or for the one of that
/// name; 0: the newest window on which something was decided, or else the newest. `error` says what is not there, and
/// which windows are.
window_explanation explain(const std::vector<ledger::row>& rows, std::uint64_t window, const std::string& worker,
                           std::string& error);

/// `summary`: what all workers got, and why, in a sentence and a table. `all`: with each worker's report, the state
/// that the policy saw, and the probabilities of its actions.
enum class explanation_detail : std::uint8_t { summary, all };
std::string to_text(const window_explanation& explanation, explanation_detail detail = explanation_detail::all);
/// An array with an object for each worker.
std::string to_json(const window_explanation& explanation);

// What both forms share.
/// "+25", or "118 % newest" where the policy votes for a share of its plan.
std::string action_text(const window_explanation& explanation, std::size_t action);
/// Whether the state's field `name` belongs to a group that was not measured: then its 0 says nothing. A ledger of
/// another version may lack the bit.
bool masked(const window_explanation& explanation, const ledger::worker& row, const std::string& name);
/// What the field is computed from in this report: "its host's sockets, by eBPF". Empty for a field of another version.
std::string source_of(const std::string& field, const messages::window_report& report);

} // namespace dynamix::ledger
