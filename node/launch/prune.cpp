#include "node/launch/prune.hpp"

#include "node/launch/run_directory.hpp"
#include "node/launch/run_lock.hpp"
#include "storage/atomic_file.hpp"
#include "storage/beneath.hpp"
#include "trainer/checkpoint.hpp"

#include <algorithm>
#include <filesystem>
#include <fmt/core.h>

namespace dynamix::node {
namespace {

namespace fs = std::filesystem;
using file_time = std::chrono::file_clock::time_point;

constexpr std::chrono::hours in_use_for{1};

struct old_run {
  run_directory directory;
  file_time written; ///< the newest of its files
  std::uint64_t bytes = 0;
};

bool is_run(const fs::path& path) {
  const run_directory run(path.string());
  std::error_code ignored;
  return fs::is_regular_file(run.cluster_file(), ignored) && fs::is_regular_file(run.ledger(), ignored);
}

/// Symbolic links are not followed.
old_run measure(const fs::path& path) {
  old_run run{.directory = run_directory(path.string()), .written = file_time::min()};
  std::error_code error;
  for (fs::recursive_directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code gone; // meanwhile
    if (!entry->is_regular_file(gone) || entry->is_symlink(gone))
      continue;
    if (const auto bytes = entry->file_size(gone); !gone)
      run.bytes += bytes;
    if (const auto written = entry->last_write_time(gone); !gone)
      run.written = std::max(run.written, written);
  }
  return run;
}

std::vector<old_run> find_runs(const std::string& directory, std::string& problem) {
  std::vector<old_run> runs;
  if (is_run(directory)) {
    runs.push_back(measure(directory));
    return runs;
  }
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error))
    if (!entry->is_symlink() && is_run(entry->path()))
      runs.push_back(measure(entry->path()));
  if (error)
    problem = fmt::format("cannot list {}: {}", directory, error.message());
  std::ranges::sort(runs, std::greater(), &old_run::written);
  return runs;
}

/// What a link in the run leads to is not the run's.
bool is_own_directory(const std::string& path) {
  std::error_code missing;
  return fs::is_directory(fs::symlink_status(path, missing));
}

void add_file(const run_directory& run, const fs::path& path, std::string reason, prune_plan& plan) {
  std::error_code error;
  if (!fs::is_regular_file(fs::symlink_status(path, error)))
    return;
  if (const auto bytes = fs::file_size(path, error); !error)
    plan.removals.push_back({path.string(), run.path(), bytes, std::move(reason)});
}

void add_parts(const run_directory& run, prune_plan& plan) {
  add_file(run, run.trace(), "a trace", plan);
  std::error_code error;
  if (const auto traces = run.path() + "/traces"; is_own_directory(traces))
    for (fs::directory_iterator entry(traces, error), end; !error && entry != end; entry.increment(error))
      add_file(run, entry->path(), "a trace", plan);
  for (fs::directory_iterator entry(run.path(), error), end; !error && entry != end; entry.increment(error))
    if (entry->path().filename().string().starts_with("preemption-"))
      add_file(run, entry->path(), "what a command of --preemption printed", plan);
  if (!is_own_directory(run.checkpoints()))
    return;
  for (const auto& torn : trainer::unfinished_checkpoints(run.checkpoints()))
    add_file(run, torn.path, "a checkpoint that was not written to its end", plan);
  const auto newest = trainer::newest_checkpoint(run.checkpoints());
  if (newest.path.empty())
    return;
  for (const auto& path : trainer::checkpoints_up_to(run.checkpoints(), newest.state.step))
    if (path != newest.path) {
      add_file(run, path, "an older checkpoint", plan);
      add_file(run, path + storage::signature_suffix, "its signature", plan);
    }
}

} // namespace

prune_plan plan_pruning(const std::string& directory, const prune_options& options, file_time now,
                        std::string& problem) {
  prune_plan plan;
  std::uint64_t bytes = 0;
  std::size_t place = 0;
  for (const auto& run : find_runs(directory, problem)) {
    const auto& path = run.directory.path();
    const auto age = std::chrono::duration_cast<std::chrono::hours>(now - run.written);
    const auto newer = place++;
    bytes += run.bytes;
    if (age < in_use_for || is_running(run.directory))
      plan.in_use.push_back(path);
    else if (options.keep_for.count() > 0 && age >= options.keep_for)
      plan.removals.push_back({path, "", run.bytes, fmt::format("last written to {} days ago", age.count() / 24)});
    else if (options.keep_runs > 0 && newer >= options.keep_runs)
      plan.removals.push_back({path, "", run.bytes, fmt::format("{} runs are newer", newer)});
    else
      add_parts(run.directory, plan);
  }
  plan.kept_bytes = bytes;
  for (const auto& each : plan.removals)
    plan.kept_bytes -= std::min(each.bytes, plan.kept_bytes);
  return plan;
}

std::vector<std::string> prune(const prune_plan& plan) {
  std::vector<std::string> problems;
  for (const auto& each : plan.removals) {
    std::error_code error;
    std::string problem;
    if (is_running(run_directory(each.within.empty() ? each.path : each.within))) { // since it was planned
      problem = "the run goes on";
    } else if (each.within.empty()) {
      fs::remove_all(each.path, error); // follows no link
      problem = error ? error.message() : "";
    } else { // since it was planned, a directory of the run may have become a link
      problem = storage::remove_beneath(each.within, fs::path(each.path).lexically_relative(each.within));
    }
    if (!problem.empty())
      problems.push_back(fmt::format("cannot remove {}: {}", each.path, problem));
  }
  return problems;
}

} // namespace dynamix::node
