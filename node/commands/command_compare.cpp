#include "node/commands/cluster_options.hpp"
#include "node/commands/command.hpp"
#include "node/experiments/comparison.hpp"
#include "node/experiments/comparison_inputs.hpp"
#include "node/experiments/comparison_runner.hpp"
#include "node/launch/stop_signals.hpp"
#include "storage/atomic_file.hpp"
#include "trainer/compute_threads.hpp"

#include <algorithm>
#include <fmt/core.h>
#include <memory>
#include <ostream>
#include <stdexcept>
#include <thread>

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
    return fmt::format("static-best is {} samples a worker", best);
  std::string tried;
  for (const auto batch : grid)
    tried += (tried.empty() ? "" : ", ") + std::to_string(batch);
  return fmt::format("static-best is {} samples a worker, the soonest of {}{}", best, tried,
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

void write_file(const std::string& path, const std::string& text) {
  if (const auto problem = storage::write_file_atomically(path, text); !problem.empty())
    throw std::runtime_error(problem);
}

int finish(const comparison_inputs& inputs, const std::vector<comparison>& all, const comparison_runner& runner,
           live_output& live, command_context& context) {
  write_file(inputs.out + "/comparison.json", to_json(all));
  const auto page = to_page(all, context.command);
  if (!page.empty())
    write_file(inputs.out + "/report.html", page);
  if (inputs.json) {
    context.out << to_json(all);
  } else {
    for (const auto& each : all)
      live.print("\n" + to_text(each));
    if (const auto closing = closing_text(all); !closing.empty())
      live.print("\n" + closing);
    live.print("\nrows: " + inputs.out + "/comparison.json\n" +
               (page.empty() ? "no page: this program was built without it (-DDYNAMIX_DASHBOARD=OFF)"
                             : "report: " + inputs.out + "/report.html"));
  }
  if (runner.failed() == 0)
    return exit_done;
  context.err << "dynamix-node: error: " << runner.failed()
              << " runs failed and count as never reaching the target. Repeat them with:\n    "
              << inputs.resume_command(context.command) << "\n";
  return exit_failed;
}

int compare_policies(const compare_arguments& arguments, command_context& context) {
  const stop_signals signals; // before any other thread
  comparison_inputs inputs;
  if (const int code = read_inputs(arguments, inputs, context.err); code != exit_done)
    return code;
  trainer::set_compute_threads(1); // a policy's tensors are small, and the simulations have the cores
  live_output live(inputs.json ? context.err : context.out, output_style::detect());
  live.print(inputs.title());
  comparison_runner runner({.simulated = inputs.simulated,
                            .jobs = arguments.jobs,
                            .insecure = arguments.insecure,
                            .quiet = arguments.quiet,
                            .scenarios = inputs.scenarios},
                           live, signals.token());

  std::string problem = runner.run(plan_search(inputs));
  const bool searched = std::ranges::count(inputs.policies, cluster::policy_kind::static_best) > 0;
  std::vector<std::uint32_t> best(inputs.files.size(), 0);
  std::vector<planned_run> rest;
  for (std::size_t cluster = 0; searched && problem.empty() && !runner.stopped() && cluster < best.size(); ++cluster) {
    best[cluster] = find_static_best(inputs, runner, cluster);
    for (std::size_t seed = inputs.search_seeds(); seed < inputs.seeds; ++seed)
      rest.push_back(inputs.plan(cluster, cluster::policy_kind::static_best, best[cluster], seed));
  }
  if (problem.empty())
    problem = runner.run(rest);
  if (!problem.empty())
    return refuse(context.err, problem);
  if (runner.stopped()) {
    context.err << "dynamix-node: stopped with " << runner.finished() << " runs finished. Go on with:\n    "
                << inputs.resume_command(context.command) << "\n";
    return exit_failed;
  }
  std::vector<comparison> all;
  for (std::size_t cluster = 0; cluster < inputs.files.size(); ++cluster)
    all.push_back(gather_cluster(inputs, runner, cluster, best[cluster]));
  return finish(inputs, all, runner, live, context);
}

} // namespace

void add_compare(CLI::App& app, command_context& context) {
  auto arguments = std::make_shared<compare_arguments>();
  arguments->jobs = std::max(1U, std::thread::hardware_concurrency());
  auto* command = app.add_subcommand("compare", "Run several policies on one cluster file or more, side by side");
  command->add_option("--cluster", arguments->clusters, "Cluster files, or directories of them")->required();
  command->add_option("--policies", arguments->policies,
                      "Comma-separated names (default: static,static-best,lb-bsp,omnilearn,goodput,ppo and, with "
                      "--simulate, oracle); static-best looks for the best equal batch unless "
                      "arbitrator.static_batch is set");
  command->add_option("--seeds", arguments->seeds, "Runs of each policy, from the file's cluster.seed on")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_flag("--simulate", arguments->simulate, "Simulate in virtual time instead of training on this machine");
  command->add_option("--out", arguments->out,
                      "Directory of the results and of every run; finished runs in it are kept (default: "
                      "runs/compare-<cluster>-<UTC time>)");
  command->add_option("--jobs", arguments->jobs, "Threads, with --simulate")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  add_set(*command, arguments->set);
  command->add_flag("--insecure", arguments->insecure,
                    "Make no keys for the runs: hosts talk in the clear, to whoever reaches their ports");
  command->add_flag("--quiet", arguments->quiet, "No progress");
  command->add_flag("--json", arguments->json, "Print the rows as JSON, and nothing else, on standard output");
  command->callback([arguments, &context] {
    context.work = [arguments, &context] { return compare_policies(*arguments, context); };
  });
}

} // namespace dynamix::node
