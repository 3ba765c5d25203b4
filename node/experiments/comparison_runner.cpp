#include "node/experiments/comparison_runner.hpp"

#include "node/experiments/simulated_run.hpp"
#include "node/launch/local_run.hpp"
#include "node/launch/run_directory.hpp"
#include "node/launch/run_lock.hpp"
#include "node/reports/text.hpp"
#include "simulator/parallel.hpp"
#include "simulator/random_stream.hpp"
#include "storage/atomic_file.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fmt/core.h>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace dynamix::node {
namespace {

struct unlocking {
  const run_directory& run;
  ~unlocking() { unlock_run(run); }
};

constexpr std::size_t outcome_bytes_max = 64U << 20;
constexpr std::uint64_t windows_between_signs = 256;

std::string outcome_path(const planned_run& plan) {
  return plan.directory + "/outcome.json";
}

std::optional<run_outcome> read_outcome(const planned_run& plan) {
  std::string text;
  if (!storage::read_file(outcome_path(plan), outcome_bytes_max, text).empty())
    return std::nullopt;
  return parse_outcome(text);
}

std::string count_of(std::size_t count, const std::string& singular, const std::string& plural) {
  return fmt::format("{} {}", count, count == 1 ? singular : plural);
}

std::string title_of(const planned_run& plan) {
  return fmt::format("{}, {}, seed {}", plan.file.name, plan.label, plan.file.seed);
}

std::string result_of(const run_outcome& outcome) {
  if (!outcome.failure.empty())
    return "failed: " + printable(outcome.failure);
  return (outcome.reached() ? "target reached after " + fixed(outcome.seconds_to_target, 1) + " s"
                            : "target not reached in " + fixed(outcome.seconds, 1) + " s") +
         ", accuracy " + percent(outcome.final_accuracy);
}

/// How far the simulated runs are. Its callers hold a lock.
class simulated_progress {
public:
  simulated_progress(live_output& live, std::size_t runs) : live_(live), runs_(runs) {}

  void add(std::uint64_t windows, bool ended) {
    windows_ += windows;
    done_ += ended ? 1 : 0;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    const auto speed = static_cast<std::uint64_t>(static_cast<double>(windows_) / std::max(seconds, 1e-3));
    const double left = done_ == 0 ? -1 : seconds * static_cast<double>(runs_ - done_) / static_cast<double>(done_);
    live_.progress(fmt::format("simulated {}/{} runs  {} windows  {} windows/s  ETA {}", done_, runs_,
                               grouped(windows_), grouped(speed), duration(left)));
  }

private:
  live_output& live_;
  std::size_t runs_;
  std::size_t done_ = 0;
  std::uint64_t windows_ = 0;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// Whether it may be removed: it has a cluster file or, where a process was killed at once, nothing but what is there
/// before one.
bool holds_a_run(const run_directory& run) {
  static constexpr std::string_view made_before[] = {"logs", "workers", "checkpoints", "run.lock"};
  const auto begun = std::filesystem::path(run.cluster_file()).filename().string();
  return std::filesystem::exists(run.cluster_file()) ||
         std::ranges::all_of(std::filesystem::directory_iterator(run.path()), [&](const auto& entry) {
           const auto name = entry.path().filename().string();
           const bool made = std::ranges::find(made_before, name) != std::end(made_before);
           return storage::name_of_unfinished(name) == begun ||
                  (made && (name == "run.lock" || std::filesystem::is_empty(entry.path())));
         });
}

/// The cluster file last: where a process is killed meanwhile, it tells what the rest is.
void remove_run(const run_directory& run) {
  if (!run.exists())
    return;
  std::vector<std::filesystem::path> others;
  for (const auto& entry : std::filesystem::directory_iterator(run.path()))
    if (entry.path() != run.cluster_file())
      others.push_back(entry.path());
  for (const auto& each : others)
    std::filesystem::remove_all(each);
  std::filesystem::remove_all(run.path());
}

} // namespace

const run_outcome* comparison_runner::find(const planned_run& plan) const {
  const auto found = outcomes_.find(plan.directory);
  return found == outcomes_.end() ? nullptr : &found->second;
}

std::string comparison_runner::survey(const std::vector<planned_run>& plans, std::vector<const planned_run*>& missing) {
  std::size_t kept = 0;
  std::size_t unfinished = 0;
  std::size_t changed = 0;
  for (const auto& plan : plans) {
    if (outcomes_.contains(plan.directory))
      continue;
    const bool exists = std::filesystem::exists(plan.directory);
    auto found = read_outcome(plan);
    const auto decision = decide_resume(exists, found, plan.fingerprint);
    if (decision == resume_decision::keep) {
      ++kept;
      outcomes_.emplace(plan.directory, std::move(*found));
      continue;
    }
    const run_directory run(plan.directory);
    if (exists && !holds_a_run(run))
      return plan.directory + " is not a run of a comparison; choose another --out";
    unfinished += decision == resume_decision::repeat_unfinished ? 1 : 0;
    changed += decision == resume_decision::repeat_changed ? 1 : 0;
    missing.push_back(&plan);
  }
  if (kept > 0)
    live_.print(count_of(kept, "run is", "runs are") + " finished already and kept");
  if (unfinished > 0)
    live_.print(count_of(unfinished, "run was", "runs were") + " not finished: made again");
  if (changed > 0)
    live_.print(count_of(changed, "run was", "runs were") + " of another cluster file or policy: made again");
  return "";
}

std::string comparison_runner::run(const std::vector<planned_run>& plans) {
  std::vector<const planned_run*> missing;
  if (auto problem = survey(plans, missing); !problem.empty())
    return problem;
  for (const auto* plan : missing)
    remove_run(run_directory(plan->directory));
  if (options_.simulated)
    run_simulated(missing);
  else
    run_live(missing);
  return "";
}

run_outcome comparison_runner::simulate_one(const planned_run& plan, const std::function<void(std::uint64_t)>& progress,
                                            bool& ended) {
  simulation_options options{.scenario = options_.scenarios[plan.cluster], .parameters = {}, .stop = stop_};
  options.scenario.file = plan.file;
  if (const auto refused = load_parameters(plan.file, options.parameters))
    throw std::runtime_error(cluster::to_string(*refused)); // it could be loaded before
  std::uint64_t windows = 0;
  options.after_window = [&](const auto&) {
    if (++windows % windows_between_signs == 0)
      progress(windows_between_signs);
  };
  auto made = simulate_episodes(std::move(options), plan.episodes);
  ended = !made.stopped;
  if (!ended)
    return {};
  made.outcome.fingerprint = plan.fingerprint;
  const run_directory run(plan.directory);
  std::filesystem::create_directories(run.path());
  require_written(write_cluster_copy(run, plan.file));
  require_written(storage::write_file_atomically(run.summary(), to_json(made.summary)));
  require_written(storage::write_file_atomically(outcome_path(plan), to_json(made.outcome))); // last: it is finished
  return std::move(made.outcome);
}

void comparison_runner::run_simulated(const std::vector<const planned_run*>& missing) {
  std::mutex mutex; // of progress and outcomes
  simulated_progress progress(live_, missing.size());
  const auto show = [&](std::uint64_t windows, bool ended) {
    if (!options_.quiet)
      progress.add(windows, ended);
  };
  simulator::for_each_index(missing.size(), options_.jobs, [&](std::size_t i) {
    if (stop_.stop_requested())
      return;
    bool ended = false;
    auto outcome = simulate_one(
        *missing[i],
        [&](std::uint64_t windows) {
          const std::scoped_lock lock(mutex);
          show(windows, false);
        },
        ended);
    const std::scoped_lock lock(mutex);
    if (!ended)
      return;
    show(outcome.windows % windows_between_signs, true);
    outcomes_.emplace(missing[i]->directory, std::move(outcome));
  });
}

std::optional<run_outcome> comparison_runner::train_one(const planned_run& plan, const cluster::cluster_file& file,
                                                        bool& succeeded) {
  const run_directory run(plan.directory);
  const unlocking at_end{run};
  require_written(prepare_directory(run, file));
  auto options = local_options(file, run);
  options.insecure = options_.insecure;
  options.quiet = options_.quiet;
  const auto made = run_locally(options, live_, stop_);
  require_written(made.problem);
  if (made.launched.stopped)
    return std::nullopt;
  std::string problem;
  auto outcome = outcome_of(read_run(run, problem), made.summary);
  require_written(problem);
  succeeded = made.succeeded();
  if (!succeeded) {
    if (outcome.failure.empty())
      outcome.failure = made.launched.error.empty() ? "training was ended before its end" : made.launched.error;
    live_.problem("error: " + title_of(plan) + ": " + outcome.failure + "\n" + made.launched.last_words);
  }
  return outcome;
}

/// The directory holds the last episode; the policy goes from one to the next in a file beside it.
std::optional<run_outcome> comparison_runner::train_episodes(const planned_run& plan, bool& succeeded) {
  auto file = plan.file;
  auto made = train_one(plan, file, succeeded);
  std::vector<double> rewards;
  const auto learned = std::filesystem::absolute(plan.directory + "-learned.dynamix").lexically_normal();
  while (made && succeeded && rewards.size() + 1 < plan.episodes) {
    rewards.push_back(made->reward);
    live_.print(fmt::format("episode {}/{}: {}", rewards.size(), plan.episodes, result_of(*made)));
    if (const auto newest = run_directory(plan.directory).policy(); std::filesystem::exists(newest)) {
      std::filesystem::rename(newest, learned);
      file.arbitrator.policy_file = learned;
    } // else the episode was too short for an update
    remove_run(run_directory(plan.directory));
    file.seed = simulator::random_stream(plan.file.seed, 0, rewards.size()).next() >> 11U; // a file's are below 2^53
    made = train_one(plan, file, succeeded);
  }
  std::filesystem::remove(learned);
  if (made && plan.episodes > 1) {
    rewards.push_back(made->reward);
    made->episode_rewards = std::move(rewards);
    made->seed = plan.file.seed;
  }
  return made;
}

void comparison_runner::run_live(const std::vector<const planned_run*>& missing) {
  using clock = std::chrono::steady_clock;
  const auto began = clock::now();
  for (std::size_t i = 0; i < missing.size() && !stop_.stop_requested(); ++i) {
    const auto& plan = *missing[i];
    const std::string place = fmt::format("{}/{}", i + 1, missing.size());
    if (!options_.quiet) {
      const double seconds = std::chrono::duration<double>(clock::now() - began).count();
      const auto left = static_cast<double>(missing.size() - i);
      live_.print("run " + place + ": " + title_of(plan) +
                  (i == 0 ? "" : "; about " + duration(seconds / static_cast<double>(i) * left) + " left"));
    }
    bool succeeded = false;
    auto outcome = train_episodes(plan, succeeded);
    if (!outcome)
      return;
    outcome->fingerprint = plan.fingerprint;
    if (!succeeded) {
      ++failed_;
    } else {
      require_written(storage::write_file_atomically(outcome_path(plan), to_json(*outcome)));
      live_.print("run " + place + ": " + result_of(*outcome));
    }
    outcomes_.emplace(plan.directory, std::move(*outcome));
  }
}

} // namespace dynamix::node
