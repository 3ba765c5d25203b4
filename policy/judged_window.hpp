#pragma once

/// A window as the ledger keeps it: what was measured, what it earned, what was decided on it and what was expected of
/// that. Includes no Torch.

#include "messages/types.hpp"
#include "policy/attribution.hpp"
#include "policy/measured_cluster.hpp"
#include "policy/reward.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace dynamix::policy {

/// One worker in a judged window.
struct judged_worker {
  messages::window_report report;
  bool stale = false;               ///< an older report stood in for a late one
  time_split time;                  ///< where a step's time went; of a stale report, its own parts only
  reward_terms reward;              ///< of report.window, earned by report.decision
  std::vector<float> state;         ///< normalised, as the policy saw it
  std::vector<float> probabilities; ///< of the actions
  std::int32_t action = -1;
  float log_probability = 0;
  float value = 0;
  std::uint32_t assigned_batch = 0; ///< before the decision
  std::uint32_t decided_batch = 0;
  std::uint32_t proposed_batch = 0; ///< by the policy; another than decided where the guard or shadow mode stepped in
  std::string intervention;         ///< why the guard stepped in; empty: it did not
  std::string reason;
  double predicted_seconds = -1;   ///< computing time of a step at the decided batch; negative: nothing measured
  std::uint32_t planned_batch = 0; ///< in the plan with the highest goodput; 0: the policy needed no plan
};

/// What the measurements promised for some batch sizes (measured_cluster::judge). All 0: not known.
struct promised_step {
  std::uint64_t total = 0;    ///< samples per step
  double slowest_seconds = 0; ///< computing time of the slowest worker
  double goodput = 0;         ///< samples per second, each as good as one of the initial global batch
};

/// What was expected of a decision when it was made. Nothing while no worker is measured.
struct window_prediction {
  double exchange_seconds = 0;
  double noise_scale = -1; ///< samples; negative: not measured
  double noise_error = 0;  ///< standard error of its natural logarithm; 0: not known
  promised_step assigned;  ///< had nothing been decided
  promised_step decided;
  promised_step planned; ///< the highest goodput, where the policy asked for it
};

/// A window as the ledger keeps it.
struct judged_window {
  messages::decision_key key;
  std::uint64_t generation = 0;
  std::uint64_t policy_version = 0;
  bool decided = true;                ///< false on the last window, on which nothing is decided
  double gather_seconds = 0;          ///< first report to the last, or to the deadline
  double decide_seconds = 0;          ///< rewards, policy and sending
  std::vector<judged_worker> workers; ///< by rank
  window_prediction predicted;
  std::string guard;                    ///< controller::guard_view
  std::vector<std::uint32_t> forgotten; ///< ranks of workers that left since the window before
};

/// Steps of the window after which workers moved samples. All workers tell the same, but for stale reports.
inline std::uint32_t moves_in(const judged_window& window) {
  std::uint32_t moves = 0;
  for (const auto& worker : window.workers)
    moves = std::max(moves, worker.stale ? 0 : worker.report.balance.moves);
  return moves;
}

/// Fills in what is expected of the decisions in `window`, whose workers are those that were measured last, in order.
void predict(const measured_cluster& measured, judged_window& window);

} // namespace dynamix::policy
