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
  std::string_view group;         ///< network | system | training | batch | global
  std::string_view normalisation; ///< the formula, for people
};

/// The fields in the vector's order. Every value lies in [-5, 5]; behind the fields come the validity bits of the groups
/// network, system and gradient, 1 valid, 0 masked. A masked entry is 0.
std::span<const state_field> state_fields();
/// Length of the vector: the fields and the validity bits.
std::size_t state_size();

/// s_global: convergence indicators over the shard, sums first so that shards can be joined.
struct global_sums {
  double weight = 0;            ///< sum of samples
  double accuracy = 0;          ///< sample-weighted sums
  double loss = 0;
  double iteration_seconds_max = 0;
  double noise_scale = 0;       ///< sample-weighted sum over reports with valid gradients
  double noise_weight = 0;
  double global_batch = 0;
};
global_sums sum_reports(std::span<const messages::window_report> reports);
global_sums join(const global_sums& left, const global_sums& right);

/// `previous` is the same worker's report of the window before, or null.
std::vector<float> normalise(const messages::window_report& report, const messages::window_report* previous,
                             std::uint32_t assigned_batch, const global_sums& global, const cluster::batch& limits);

} // namespace dynamix::policy
