#include "node/experiments/compared_policies.hpp"

#include "node/experiments/comparison_runner.hpp"
#include "node/experiments/simulated_run.hpp"
#include "node/launch/run_directory.hpp"
#include "node/launch/run_lock.hpp"
#include "storage/atomic_file.hpp"

#include <algorithm>
#include <filesystem>
#include <fmt/core.h>
#include <system_error>
#include <utility>

namespace dynamix::node {
namespace {

/// All runs that are known to be needed: of static-best the search, whose seeds are all in simulation, where runs are
/// cheap, and the first live. A seed's runs follow each other, so that a machine that changes changes for all policies.
std::vector<planned_run> plan_search(const comparison_inputs& inputs) {
  std::vector<planned_run> plans;
  for (std::size_t cluster = 0; cluster < inputs.files.size(); ++cluster)
    for (std::size_t seed = 0; seed < inputs.seeds; ++seed)
      for (const auto policy : inputs.policies) {
        if (policy != cluster::policy_kind::static_best)
          plans.push_back(inputs.plan(cluster, policy, 0, seed));
        else if (seed < inputs.search_seeds())
          for (const auto batch : inputs.grid(cluster))
            plans.push_back(inputs.plan(cluster, policy, batch, seed));
      }
  return plans;
}

/// The best equal batch of a cluster, once its search is done.
std::uint32_t find_static_best(const comparison_inputs& inputs, const comparison_runner& runner, std::size_t cluster) {
  std::vector<candidate> candidates;
  for (const auto batch : inputs.grid(cluster)) {
    candidates.push_back({.batch = batch, .runs = {}});
    for (std::size_t seed = 0; seed < inputs.search_seeds(); ++seed)
      candidates.back().runs.push_back(
          *runner.find(inputs.plan(cluster, cluster::policy_kind::static_best, batch, seed)));
  }
  return candidates[best_candidate(candidates)].batch;
}

std::string search_note(const comparison_inputs& inputs, std::size_t cluster, std::uint32_t best) {
  const auto grid = inputs.grid(cluster);
  if (grid.size() == 1)
    return fmt::format("static-best is {} samples per worker", best);
  std::string tried;
  for (const auto batch : grid)
    tried += (tried.empty() ? "" : ", ") + std::to_string(batch);
  return fmt::format("static-best is {} samples per worker, the soonest of {}{}", best, tried,
                     inputs.search_seeds() == inputs.seeds ? "" : " with the first seed");
}

/// One cluster's table, from runs that are all there.
comparison gather_cluster(const comparison_inputs& inputs, const comparison_runner& runner, std::size_t cluster,
                          std::uint32_t static_best) {
  const auto& file = inputs.files[cluster];
  comparison made{.cluster = file.name,
                  .path = file.path,
                  .target_accuracy = file.training.target_accuracy,
                  .simulated = inputs.simulated};
  if (auto note = inputs.simulated ? note_of_decisions(file) : ""; !note.empty())
    made.notes.push_back(std::move(note));
  std::vector<policy_runs> policies;
  for (const auto policy : inputs.policies) {
    const bool searched = policy == cluster::policy_kind::static_best;
    const std::uint32_t batch = searched ? static_best : 0;
    if (searched)
      made.notes.push_back(search_note(inputs, cluster, batch));
    policies.push_back({.policy = std::string(cluster::to_string(policy)), .static_batch = batch, .runs = {}});
    for (std::size_t seed = 0; seed < inputs.seeds; ++seed)
      policies.back().runs.push_back(*runner.find(inputs.plan(cluster, policy, batch, seed)));
  }
  return compare(std::move(made), std::move(policies));
}

} // namespace

compared_policies compare_policies(const compare_arguments& arguments, const comparison_inputs& inputs,
                                   live_output& live, std::stop_token stop) {
  comparison_runner runner({.simulated = inputs.simulated,
                            .jobs = arguments.jobs,
                            .insecure = arguments.insecure,
                            .quiet = arguments.quiet,
                            .scenarios = inputs.scenarios},
                           live, std::move(stop));
  const run_directory out(inputs.out);
  std::error_code failed; // writing says it better
  std::filesystem::create_directories(out.path(), failed);
  compared_policies made{.problem = lock_run(out)}; // two that go on in one directory would remove each other's runs
  if (!made.problem.empty())
    return made;
  made.problem = runner.run(plan_search(inputs));
  const bool searched = std::ranges::count(inputs.policies, cluster::policy_kind::static_best) > 0;
  std::vector<std::uint32_t> best(inputs.files.size(), 0);
  std::vector<planned_run> rest;
  const auto going = [&] { return made.problem.empty() && !runner.stopped(); };
  for (std::size_t cluster = 0; searched && going() && cluster < best.size(); ++cluster) {
    best[cluster] = find_static_best(inputs, runner, cluster);
    for (std::size_t seed = inputs.search_seeds(); seed < inputs.seeds; ++seed)
      rest.push_back(inputs.plan(cluster, cluster::policy_kind::static_best, best[cluster], seed));
  }
  if (going())
    made.problem = runner.run(rest);
  made.stopped = runner.stopped();
  made.finished = runner.finished();
  made.failed = runner.failed();
  for (std::size_t cluster = 0; going() && cluster < inputs.files.size(); ++cluster)
    made.tables.push_back(gather_cluster(inputs, runner, cluster, best[cluster]));
  return made;
}

std::string write_comparison(const comparison_inputs& inputs, const std::vector<comparison>& tables,
                             const std::string& command) {
  require_written(storage::write_file_atomically(inputs.out + "/comparison.json", to_json(tables)));
  const auto page = to_page(tables, command);
  if (page.empty())
    return "";
  require_written(storage::write_file_atomically(inputs.out + "/report.html", page));
  return inputs.out + "/report.html";
}

} // namespace dynamix::node
