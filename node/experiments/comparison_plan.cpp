#include "node/experiments/comparison_plan.hpp"

#include "messages/types.hpp"
#include "node/experiments/policy_choice.hpp"
#include "node/experiments/statistics.hpp"
#include "storage/atomic_file.hpp"
#include "storage/fnv1a.hpp"

#include <algorithm>
#include <fmt/core.h>
#include <limits>
#include <set>

namespace dynamix::node {
namespace {

constexpr std::size_t named_file_bytes_max = messages::max_policy_bytes;

double mean_seconds(const candidate& of) {
  double sum = 0;
  for (const auto& run : of.runs)
    sum += run.reached() ? run.seconds_to_target : std::numeric_limits<double>::infinity();
  return sum / static_cast<double>(std::max<std::size_t>(of.runs.size(), 1));
}

double mean_accuracy(const candidate& of) {
  std::vector<double> accuracies;
  for (const auto& run : of.runs)
    accuracies.push_back(run.failure.empty() ? run.final_accuracy : 0);
  return accuracies.empty() ? 0 : mean_of(accuracies);
}

} // namespace

planned_run plan_run(const cluster::cluster_file& file, cluster::policy_kind policy, std::uint32_t static_batch,
                     std::uint64_t seed, bool simulated, const std::string& out, std::uint32_t episodes) {
  const std::string name(cluster::to_string(policy));
  planned_run planned{.file = file, .label = name, .directory = {}};
  planned.file.seed = seed;
  planned.file.arbitrator.policy = policy;
  planned.file.arbitrator.static_batch = static_batch;
  if (policy == cluster::policy_kind::static_best)
    planned.label += fmt::format("-{}", static_batch);
  drop_foreign_parameters(planned.file);
  planned.directory = fmt::format("{}/{}/{}-seed-{}", out, file.name, planned.label, seed);
  planned.fingerprint = fingerprint_of(planned.file, simulated);
  if (cluster::has_parameters(policy) && file.arbitrator.mode == cluster::policy_mode::train && episodes > 1) {
    planned.episodes = episodes;
    planned.fingerprint = storage::fnv1a().add(fmt::format("{} {}", planned.fingerprint, episodes)).value();
  }
  return planned;
}

std::uint64_t fingerprint_of(const cluster::cluster_file& file, bool simulated) {
  storage::fnv1a fingerprint;
  fingerprint.add(cluster::to_toml(file));
  std::set<std::string> named = {file.arbitrator.policy_file};
  if (simulated) {
    named.insert({file.simulation.profile, file.simulation.workload});
    for (const auto& host : file.hosts)
      named.insert(host.profile);
  }
  for (const auto& path : named) {
    std::string contents; // one that cannot be read stops the run, not the plan
    if (!path.empty() && storage::read_file(path, named_file_bytes_max, contents).empty())
      fingerprint.add(contents);
  }
  return fingerprint.add(std::string_view(simulated ? "simulated" : "live")).value();
}

std::vector<std::uint32_t> static_batch_grid(const cluster::batch& limits) {
  std::set<std::uint32_t> grid = {limits.initial};
  for (std::uint64_t batch = 1; batch <= limits.highest; batch *= 2)
    if (batch >= limits.lowest)
      grid.insert(static_cast<std::uint32_t>(batch));
  return {grid.begin(), grid.end()};
}

std::size_t best_candidate(const std::vector<candidate>& candidates) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < candidates.size(); ++i) {
    const double seconds = mean_seconds(candidates[i]);
    const double least = mean_seconds(candidates[best]);
    if (seconds < least || (seconds == least && mean_accuracy(candidates[i]) > mean_accuracy(candidates[best])))
      best = i;
  }
  return best;
}

resume_decision decide_resume(bool directory_exists, const std::optional<run_outcome>& found,
                              std::uint64_t fingerprint) {
  if (!directory_exists)
    return resume_decision::begin;
  if (!found)
    return resume_decision::repeat_unfinished;
  return found->fingerprint == fingerprint ? resume_decision::keep : resume_decision::repeat_changed;
}

} // namespace dynamix::node
