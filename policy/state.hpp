#pragma once

/// The state vector of a worker: what the policy sees, field by field, with its normalisation.

#include "cluster/cluster_file.hpp"
#include "messages/types.hpp"

#include <span>
#include <string_view>
#include <vector>

namespace dynamix::policy {

/// One entry of the state vector.
struct state_field {
  std::string_view name;
  std::string_view group;         ///< network | system | training | gradient | batch | global | noise | plan |
                                  ///< validity
  std::string_view normalisation; ///< the formula, for people; "n workers" are those of the shard
};

/// The fields in the vector's order. None has a scale: they are ratios, shares and counts a step, so that a policy can
/// go by them on workloads whose steps, losses and networks are of another order than those it was trained on. Every
/// value is clamped to [-5, 5]. The last five are the validity bits of the
/// groups network, system, gradient, noise and plan: 1 valid, 0 masked. Every field of a masked group is 0.
std::span<const state_field> state_fields();
/// The field of that name, also one that only states of earlier programs had, which their ledgers tell; null: none.
const state_field* find_state_field(std::string_view name);
/// Length of the vector.
std::size_t state_size();

/// What the measurements say about one worker (policy/measured_cluster.hpp), as the state shows it.
struct plan_view {
  bool valid = false;            ///< something is measured; else the group is masked
  double planned_batch = 0;      ///< of this worker in the plan with the highest goodput
  double planned_total = 0;      ///< of all
  double assigned_total = 0;     ///< last decided, of all
  double gain = 1;               ///< goodput of the plan / of what is assigned, predicted
  double surprise = 0;           ///< log2(newest computing time / expected), this worker's
  double surprise_largest = 0;   ///< the same of the worker whose is furthest from 0
  double jitter = 0;             ///< of the surprise, this worker's
  double exchange_over_step = 0; ///< exchange / (exchange + slowest computing time)
  double noise_trend = 1;        ///< newest noise scale / its moving average
};

/// s_global. The sums over all workers are taken in the order of ranks, so that they are the same however the workers
/// are spread over shards.
using messages::global_sums;
global_sums sum_reports(std::span<const messages::window_report> reports);
/// The sums over both. Commutative, and associative up to rounding.
global_sums join(const global_sums& left, const global_sums& right);

/// The state of one worker: state_size() numbers in [-5, 5], finite for every report that the codec lets through.
/// `previous_accuracy` is the same worker's mean batch accuracy of the window before; negative when there is none.
/// `assigned_batch` is the batch last decided for it.
std::vector<float> normalise(const messages::window_report& report, double previous_accuracy,
                             std::uint32_t assigned_batch, const global_sums& global, const cluster::batch& limits,
                             const plan_view& plan);

} // namespace dynamix::policy
