#include "cluster/text_table.hpp"
#include "node/commands/cluster_options.hpp"
#include "node/commands/command.hpp"
#include "node/experiments/training_files.hpp"
#include "node/launch/live_output.hpp"
#include "node/launch/run_directory.hpp"
#include "node/launch/stop_signals.hpp"
#include "node/reports/commit.hpp"
#include "node/reports/text.hpp"
#include "node/training/loaded_trainer.hpp"
#include "simulator/policy_training.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fmt/core.h>
#include <memory>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <stop_token>
#include <thread>

namespace dynamix::node {
namespace {

struct train_arguments {
  std::vector<std::string> scenarios;
  std::string out;
  std::string policy = "ppo";
  std::uint32_t updates = 400;
  std::uint32_t environments = 16;
  std::string horizon;
  std::uint64_t seed = 1;
  std::uint32_t jobs = std::max(1U, std::thread::hardware_concurrency());
  std::vector<std::string> set;
  std::uint32_t evaluate_every = 20;
  bool resume = false;
};

/// The learning rate falls to 0 with the last update, unless somebody has said otherwise.
void anneal(std::vector<simulator::scenario>& scenarios, const train_arguments& arguments) {
  auto& file = scenarios.front().file;
  if (!file.gives("ppo.annealing_updates"))
    file.ppo.annealing_updates = arguments.updates;
}

/// One training with its files.
class training_run {
public:
  training_run(const train_arguments& arguments, std::vector<simulator::scenario> scenarios, training_files files,
               training_origin origin, const std::vector<std::uint8_t>& saved)
      : arguments_(arguments), files_(std::move(files)), origin_(std::move(origin)),
        training_(scenarios, {.seed = arguments.seed, .environments = arguments.environments, .jobs = arguments.jobs},
                  make_learner, saved),
        validation_(std::move(scenarios), arguments.jobs) {}

  /// To the end, or until somebody stops it.
  void run(live_output& live, const std::stop_token& stop);
  bool complete() const { return training_.updates() >= arguments_.updates; }
  const simulator::policy_training& training() const { return training_; }
  const std::optional<simulator::validation_scores>& best() const { return best_; }

private:
  void validate(live_output& live);
  void checkpoint() const;
  training_pace pace(double seconds, double round_seconds, std::uint64_t updates, std::uint64_t windows) const;

  const train_arguments& arguments_;
  training_files files_;
  training_origin origin_;
  simulator::policy_training training_;
  simulator::policy_validation validation_;
  std::optional<simulator::validation_scores> best_;
};

void training_run::validate(live_output& live) {
  const auto version = training_.current();
  const auto scores = validation_.score(version.parameters);
  const bool better = training_.record(scores);
  if (better) {
    best_ = scores;
    require_written(files_.write_policy(version.parameters, origin_));
  }
  live.print(fmt::format("update {}: {} of goodput's speed, {} of static's{}", training_.updates(),
                         fixed(scores.against_goodput, 3), fixed(scores.against_static, 3),
                         better ? ", the best so far" : ""));
}

void training_run::checkpoint() const {
  require_written(files_.write_training(training_.save(), origin_));
  require_written(files_.write_report(origin_, training_.curve(), best_));
}

training_pace training_run::pace(double seconds, double round_seconds, std::uint64_t updates,
                                 std::uint64_t windows) const {
  training_pace pace{.update = training_.updates(), .updates = arguments_.updates, .windows = training_.windows()};
  if (round_seconds > 0)
    pace.windows_per_second = static_cast<double>(windows) / round_seconds;
  if (updates > 0)
    pace.seconds_left =
        seconds / static_cast<double>(updates) * static_cast<double>(arguments_.updates - training_.updates());
  return pace;
}

void training_run::run(live_output& live, const std::stop_token& stop) {
  using clock = std::chrono::steady_clock;
  const auto since = [](clock::time_point start) {
    return std::chrono::duration<double>(clock::now() - start).count();
  };
  const std::uint64_t updates_before = training_.updates();
  const std::uint64_t windows_before = training_.windows();
  double round_seconds = 0;
  if (training_.best() == nullptr) {
    validate(live);
  } else if (std::vector<std::uint8_t> kept; files_.read_policy(kept).empty()) {
    best_ = validation_.score(kept); // for the page: the checkpoint holds their mean only
  }
  const auto start = clock::now();
  while (!complete() && !stop.stop_requested()) {
    const auto round_start = clock::now();
    training_.run_round();
    round_seconds += since(round_start);
    if (training_.updates() % arguments_.evaluate_every == 0 || complete()) {
      validate(live);
      checkpoint();
    }
    live.progress(training_line(
        pace(since(start), round_seconds, training_.updates() - updates_before, training_.windows() - windows_before),
        training_.curve()));
  }
  if (!complete())
    checkpoint();
}

/// What --resume goes on from. Returns exit_done, or exit_refused after the reason has been written.
int read_saved(const training_files& files, training_origin& origin, std::vector<std::uint8_t>& saved,
               std::ostream& err) {
  training_origin before;
  if (const auto problem = files.read_training(saved, before); !problem.empty())
    return refuse(err, "nothing to resume from: " + problem);
  if (before.seed != origin.seed)
    return refuse(err, fmt::format("--seed is {}, {} was begun with {}", origin.seed, files.training(), before.seed));
  if (before.scenarios != origin.scenarios)
    return refuse(err, files.training() + " was trained on other scenarios");
  origin.command = before.command + " && " + origin.command;
  if (before.commit != origin.commit)
    origin.commit = before.commit + ", then " + origin.commit;
  return exit_done;
}

/// Whether the arguments and the files of an earlier training go together. As above.
int prepare(const train_arguments& arguments, const training_files& files, training_origin& origin,
            std::vector<std::uint8_t>& saved, std::ostream& err) {
  if (files.page() == files.policy())
    return refuse(err, "--out: the report takes the name with .html; choose another ending");
  if (arguments.resume)
    return read_saved(files, origin, saved, err);
  for (const auto& path : {files.policy(), files.training()})
    if (std::filesystem::exists(path))
      return refuse(err, path + " exists; choose another --out, remove it, or --resume");
  std::error_code error;
  const auto directory = std::filesystem::path(files.policy()).parent_path();
  if (!directory.empty() && !std::filesystem::is_directory(directory) &&
      !std::filesystem::create_directories(directory, error))
    return refuse(err, "cannot make " + directory.string() + ": " + error.message());
  return exit_done;
}

int finish(const training_run& run, const training_files& files, const std::string& hint, live_output& live,
           command_context& context) {
  if (run.best())
    live.print("\n" + cluster::text_table(validation_rows(*run.best())));
  if (!run.complete()) {
    context.err << "dynamix-node: stopped at update " << run.training().updates() << ". Go on with:\n    " << hint
                << "\n";
    return exit_failed;
  }
  live.print("policy of update " + fixed(run.training().best()->update, 0) + ": " + files.policy() +
             "\nreport: " + files.page());
  return exit_done;
}

std::string count_of(std::uint64_t number, const std::string& what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

int train_policy(const train_arguments& arguments, command_context& context) {
  const stop_signals signals; // before any other thread
  std::vector<simulator::scenario> scenarios;
  const auto changes = changes_of(arguments.set, {{"--policy", "arbitrator.policy", arguments.policy},
                                                  {"--horizon", "ppo.horizon", arguments.horizon}});
  if (const int code = load_scenarios(arguments.scenarios, changes, scenarios, context.err); code != exit_done)
    return code;
  if (!cluster::has_parameters(scenarios.front().file.arbitrator.policy))
    return refuse(context.err, "--policy: " + arguments.policy + " learns nothing; choose ppo, ppo-add or ppo-simple");
  anneal(scenarios, arguments);
  simulator::align(scenarios);

  const training_files files(arguments.out);
  training_origin origin{
      .command = context.command, .commit = commit(), .seed = arguments.seed, .policy = arguments.policy};
  for (const auto& each : scenarios)
    origin.scenarios.push_back(each.file.name);
  std::vector<std::uint8_t> saved;
  if (const int code = prepare(arguments, files, origin, saved, context.err); code != exit_done)
    return code;

  live_output live(context.out, output_style::detect());
  std::optional<training_run> run;
  try {
    run.emplace(arguments, std::move(scenarios), files, origin, saved);
  } catch (const std::invalid_argument& error) {
    return refuse(context.err, (saved.empty() ? "" : files.training() + ": ") + error.what());
  }
  live.print(fmt::format("{}: {}, {}, {}, seed {}{}", arguments.policy, count_of(origin.scenarios.size(), "scenario"),
                         count_of(run->training().environments(), "environment"), count_of(arguments.jobs, "thread"),
                         arguments.seed,
                         arguments.resume ? fmt::format(", from update {} (the environments begin new episodes)",
                                                        run->training().updates())
                                          : ""));
  run->run(live, signals.token());
  return finish(*run, files, context.command + (arguments.resume ? "" : " --resume"), live, context);
}

} // namespace

void add_train_policy(CLI::App& app, command_context& context) {
  auto arguments = std::make_shared<train_arguments>();
  auto* command = app.add_subcommand("train-policy", "Train a policy on simulated clusters");
  command->add_option("--scenarios", arguments->scenarios, "Cluster files, or directories of them")->required();
  command->add_option("--out", arguments->out, "Policy file to write; .training, .csv and .html go beside it")
      ->required();
  command->add_option("--policy", arguments->policy, "ppo, ppo-add or ppo-simple")->capture_default_str();
  command->add_option("--updates", arguments->updates, "Policy updates in all")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command
      ->add_option("--environments", arguments->environments,
                   "Environments at once; rounded up to a multiple of the scenarios")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command->add_option("--horizon", arguments->horizon, "Windows per worker before an update (overrides ppo.horizon)");
  command->add_option("--seed", arguments->seed, "Seed of everything random")
      ->check(refuse_number)
      ->capture_default_str();
  command->add_option("--jobs", arguments->jobs, "Threads")->check(CLI::Range(1, 1024))->capture_default_str();
  add_set(*command, arguments->set);
  command->add_option("--evaluate-every", arguments->evaluate_every, "Updates between validations and checkpoints")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command->add_flag("--resume", arguments->resume, "Resume from OUT.training; environments begin new episodes");
  add_work(*command, context, arguments, train_policy);
}

} // namespace dynamix::node
