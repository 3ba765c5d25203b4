#include "cluster/text_table.hpp"
#include "ledger/file.hpp"
#include "node/commands/cluster_options.hpp"
#include "node/commands/command.hpp"
#include "node/experiments/simulated_run.hpp"
#include "node/experiments/statistics.hpp"
#include "node/launch/live_output.hpp"
#include "node/launch/stop_signals.hpp"
#include "node/reports/report.hpp"
#include "node/reports/results.hpp"
#include "node/reports/text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fmt/core.h>
#include <functional>
#include <memory>
#include <ostream>

namespace dynamix::node {
namespace {

constexpr std::size_t workers_shown = 16;
constexpr std::uint64_t windows_between_progress = 64;

struct simulate_arguments {
  std::string cluster;
  std::string policy;
  std::string policy_file;
  std::string mode;
  std::string seed;
  std::size_t seeds = 1;
  std::string out;
  std::vector<std::string> set;
  bool quiet = false;
  bool json = false;
};

/// A run and how long it took to simulate.
struct timed_run {
  simulated_run run;
  double real_seconds = 0;

  double windows_per_second() const { return static_cast<double>(run.outcome.windows) / std::max(real_seconds, 1e-9); }
};

std::string progress_text(const simulator::simulation& run, const cluster::cluster_file& file, std::size_t number,
                          std::size_t seeds) {
  const double target = file.training.target_accuracy;
  return (seeds == 1 ? "" : fmt::format("seed {}/{}  ", number + 1, seeds)) + "window " +
         grouped(run.result().windows) + "  epoch " + fixed(run.world().epochs(), 1) + " of at most " +
         fixed(file.training.epochs, 0) + "  accuracy " + percent(run.world().accuracy(), 1) +
         (target > 0 ? " of " + percent(target, 1) : "") + "  virtual time " + duration(run.world().now_seconds());
}

std::string seed_line(const run_outcome& outcome, double target) {
  std::string line = fmt::format("seed {}: ", outcome.seed);
  if (!outcome.failure.empty())
    return line + "FAILED: " + outcome.failure;
  if (target > 0)
    line += outcome.reached() ? "target reached after " + fixed(outcome.seconds_to_target, 1) + " s, "
                              : "target not reached in " + fixed(outcome.seconds, 1) + " s, ";
  return line + "accuracy " + percent(outcome.final_accuracy) + ", " +
         grouped(static_cast<std::uint64_t>(outcome.samples_per_second())) + " samples/s";
}

std::vector<double> values_of(const std::vector<timed_run>& runs,
                              const std::function<double(const timed_run&)>& value) {
  std::vector<double> values;
  for (const auto& each : runs)
    values.push_back(value(each));
  return values;
}

std::string whole_mean(const std::vector<double>& values) {
  return grouped(static_cast<std::uint64_t>(std::llround(mean_of(values))));
}

std::string with_interval(const std::vector<double>& values, int decimals) {
  const auto mean = estimate_of(values);
  return (decimals == 0 ? whole_mean(values) : fixed(mean.mean, decimals)) +
         (std::isfinite(mean.half_width) ? " ± " + fixed(mean.half_width, decimals) : "");
}

std::string result_table(const std::vector<timed_run>& runs, double target) {
  const auto of = [&](auto member) {
    return values_of(runs, [=](const auto& each) { return static_cast<double>(each.run.outcome.*member); });
  };
  const auto missed = std::ranges::count_if(runs, [](const auto& each) { return !each.run.outcome.reached(); });
  std::vector<std::vector<std::string>> rows;
  if (target > 0)
    rows.push_back({"seconds to " + percent(target, 1),
                    missed == 0        ? with_interval(of(&run_outcome::seconds_to_target), 1)
                    : runs.size() == 1 ? "never"
                                       : fmt::format("never in {} of {} runs", missed, runs.size())});
  rows.push_back(
      {"final accuracy",
       with_interval(values_of(runs, [](const auto& each) { return 100 * each.run.outcome.final_accuracy; }), 2) +
           " %"});
  rows.push_back(
      {"samples/s",
       with_interval(values_of(runs, [](const auto& each) { return each.run.outcome.samples_per_second(); }), 0)});
  rows.push_back({"decisions", whole_mean(of(&run_outcome::decisions)) + ", of which " +
                                   whole_mean(of(&run_outcome::changes)) + " changed a batch size"});
  rows.push_back({"interventions", whole_mean(of(&run_outcome::interventions)) + " of " +
                                       whole_mean(of(&run_outcome::windows)) + " windows"});
  rows.push_back({"simulated", whole_mean(values_of(runs, [](const auto& each) { return each.windows_per_second(); })) +
                                   " windows per second"});
  return cluster::text_table(rows, 2, cluster::heading::absent);
}

std::string rows_json(const std::vector<timed_run>& runs, const cluster::cluster_file& file) {
  auto rows = nlohmann::ordered_json::array();
  for (const auto& each : runs) {
    const auto& outcome = each.run.outcome;
    nlohmann::ordered_json row = {{"cluster", file.name},
                                  {"policy", outcome.policy},
                                  {"seed", outcome.seed},
                                  {"failure", nullptr},
                                  {"seconds_to_target", nullptr},
                                  {"final_accuracy", outcome.final_accuracy},
                                  {"samples_per_second", outcome.samples_per_second()},
                                  {"seconds", outcome.seconds},
                                  {"windows", outcome.windows},
                                  {"decisions", outcome.decisions},
                                  {"changes", outcome.changes},
                                  {"interventions", outcome.interventions},
                                  {"windows_per_second", each.windows_per_second()}};
    if (!outcome.failure.empty())
      row["failure"] = outcome.failure;
    if (outcome.reached())
      row["seconds_to_target"] = outcome.seconds_to_target;
    rows.push_back(row);
  }
  return rows.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

/// One seed, with its run directory where `out` is not empty. Throws std::runtime_error when that cannot be written.
timed_run simulate_seed(simulation_options options, const std::string& out) {
  const run_directory run(out);
  std::unique_ptr<ledger::writer> ledger;
  policy::parameter_archive archive(run.policies());
  const auto require = [](const std::string& problem) {
    if (!problem.empty())
      throw std::runtime_error(problem);
  };
  if (!out.empty()) {
    require(run.create());
    auto copy = options.scenario.file;
    cluster::make_paths_absolute(copy);
    require(write_cluster_copy(run, copy));
    std::string problem;
    ledger = ledger::open_file(run.ledger(), problem);
    require(problem);
    options.ledger = ledger.get();
    options.archive = &archive;
  }
  const auto begin = std::chrono::steady_clock::now();
  timed_run made{.run = simulate(options)};
  made.real_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (!out.empty())
    require(write_results(run, {}, made.run.outcome.failure, made.run.summary));
  return made;
}

int run_seeds(const simulate_arguments& arguments, const simulator::scenario& scenario,
              const std::vector<std::uint8_t>& parameters, const std::stop_token& stop, command_context& context) {
  const auto& file = scenario.file;
  live_output live(arguments.json ? context.err : context.out, output_style::detect());
  const bool shown = !arguments.quiet && !arguments.json;
  if (shown)
    live.print(fmt::format("{}: {} workers, policy {}{}, in virtual time", file.name, file.workers().size(),
                           cluster::to_string(file.arbitrator.policy),
                           cluster::has_parameters(file.arbitrator.policy)
                               ? " (" + std::string(cluster::to_string(file.arbitrator.mode)) + ")"
                               : ""));
  std::vector<timed_run> runs;
  for (std::size_t i = 0; i < arguments.seeds && !stop.stop_requested(); ++i) {
    simulation_options options{.scenario = scenario, .parameters = parameters, .stop = stop};
    options.scenario.file.seed += i;
    if (shown)
      options.after_window = [&](const simulator::simulation& run) {
        if (run.window().key.window % windows_between_progress == 0)
          live.progress(progress_text(run, file, i, arguments.seeds));
      };
    const std::string below = fmt::format("/seed-{}", options.scenario.file.seed);
    auto made = simulate_seed(options, arguments.out + (arguments.out.empty() || arguments.seeds == 1 ? "" : below));
    if (made.run.stopped)
      break;
    runs.push_back(std::move(made));
    if (!arguments.json)
      live.print("  " + seed_line(runs.back().run.outcome, file.training.target_accuracy));
  }
  if (runs.size() < arguments.seeds) {
    context.err << "dynamix-node: stopped before the end\n";
    return exit_failed;
  }
  if (arguments.json) {
    context.out << rows_json(runs, file);
  } else {
    if (runs.size() == 1 && runs.front().run.summary.workers.size() <= workers_shown) {
      live.heading("workers");
      live.print(workers_table(runs.front().run.summary));
    }
    live.heading(runs.size() == 1 ? "result" : "result, mean ± 95 % interval");
    live.print(result_table(runs, file.training.target_accuracy));
    if (!arguments.out.empty())
      live.print((runs.size() == 1 ? "run directory: " : "run directories: ") + arguments.out +
                 (runs.size() == 1 ? "" : "/seed-*"));
  }
  const bool failed = std::ranges::any_of(runs, [](const auto& each) { return !each.run.outcome.failure.empty(); });
  return failed ? exit_failed : exit_done;
}

int simulate_cluster(const simulate_arguments& arguments, command_context& context) {
  const stop_signals signals; // before any other thread
  std::vector<simulator::scenario> scenarios;
  if (std::filesystem::is_directory(arguments.cluster))
    return refuse(context.err, "--cluster is a directory; simulate takes one file, compare --simulate several");
  const auto policy_file =
      arguments.policy_file.empty() ? "" : std::filesystem::absolute(arguments.policy_file).string();
  const auto changes = changes_of(arguments.set, {{"--policy", "arbitrator.policy", arguments.policy},
                                                  {"--mode", "arbitrator.mode", arguments.mode},
                                                  {"--seed", "cluster.seed", arguments.seed},
                                                  {"--policy-file", "arbitrator.policy_file", policy_file}});
  if (const int code = load_scenarios({arguments.cluster}, changes, scenarios, context.err); code != exit_done)
    return code;
  const auto& file = scenarios.front().file;
  std::vector<std::uint8_t> parameters;
  if (const auto refused = load_parameters(file, parameters))
    return refuse_at(context.err, *refused);
  if (!arguments.out.empty() && !run_directory(arguments.out).empty())
    return refuse(context.err, arguments.out + " exists and is not empty; choose another --out");
  if (cluster::has_parameters(file.arbitrator.policy) && parameters.empty() &&
      file.arbitrator.mode == cluster::policy_mode::infer)
    context.err << "dynamix-node: warning: arbitrator.mode is \"infer\" without a policy file: the policy stays as "
                   "random as its seed\n";
  if (const auto note = note_of_decisions(file); !note.empty())
    context.err << "dynamix-node: note: " << note << "\n";
  return run_seeds(arguments, scenarios.front(), parameters, signals.token(), context);
}

} // namespace

void add_simulate(CLI::App& app, command_context& context) {
  auto arguments = std::make_shared<simulate_arguments>();
  auto* command = app.add_subcommand("simulate", "Run a cluster file in virtual time");
  command->add_option("--cluster", arguments->cluster, "Cluster file with a workload and device profiles")->required();
  command->add_option("--policy", arguments->policy, "Overrides the file's arbitrator.policy");
  command->add_option("--policy-file", arguments->policy_file, "Overrides the file's arbitrator.policy_file");
  command->add_option("--mode", arguments->mode, "train or infer (overrides the file's arbitrator.mode)");
  command->add_option("--seed", arguments->seed, "Seed of the first run (overrides the file's cluster.seed)");
  command->add_option("--seeds", arguments->seeds, "Runs, each with the next seed")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--out", arguments->out,
                      "New or empty directory for the run, which report and explain read; of several seeds each in "
                      "seed-N below it (default: nothing is written)");
  add_set(*command, arguments->set);
  command->add_flag("--quiet", arguments->quiet, "No progress");
  command->add_flag("--json", arguments->json, "Print the runs as JSON, and nothing else, on standard output");
  add_work(*command, context, arguments, simulate_cluster);
}

} // namespace dynamix::node
