#include "node/launch/observed_run.hpp"

#include "ledger/codec.hpp"
#include "ledger/line_reader.hpp"
#include "node/reports/observation.hpp"
#include "node/reports/run_records.hpp"
#include "node/reports/text.hpp"
#include "storage/atomic_file.hpp"

#include <cstdlib>
#include <filesystem>
#include <fmt/core.h>
#include <optional>
#include <string_view>
#include <utility>

namespace dynamix::node {
namespace {

constexpr std::size_t file_bytes_max = 1U << 20;
constexpr auto hook_directory = "dynamix/observer"; ///< of the Python package

std::string estimate_file(const std::string& run) {
  return run_directory(run).observed() + "/estimate.json";
}

std::optional<kept_estimate> read_estimate(const std::string& run) {
  std::string text;
  return storage::read_file(estimate_file(run), file_bytes_max, text).empty() ? parse_kept_estimate(text)
                                                                              : std::nullopt;
}

/// Mean of the second half of the windows: batch sizes have come to where they stay. 0: there are too few.
double settled_samples_per_second(const run_records& records) {
  constexpr auto column = static_cast<std::size_t>(ledger::signal::samples_per_second);
  const auto& history = records.run.course().history();
  double sum = 0;
  double count = 0;
  for (std::size_t row = history.rows() / 2; row < history.rows(); ++row)
    if (const double value = history.row(row)[column]; value > 0) {
      sum += value;
      ++count;
    }
  return count > 0 ? sum / count : 0;
}

} // namespace

bool can_observe() {
  const char* path = std::getenv("PYTHONPATH");
  return path != nullptr && std::string_view(path).find(hook_directory) != std::string_view::npos;
}

std::vector<std::string> tell_observation(const told_run& told, std::string& table) {
  std::vector<observed_worker> workers;
  const auto all = told.file.workers();
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    std::string text;
    if (!storage::read_file(fmt::format("{}/rank-{}.json", told.run.observed(), rank), file_bytes_max, text).empty())
      continue;
    auto worker = parse_observed_worker(text, all[rank]->name);
    if (!worker)
      continue;
    for (const auto& known : told.summary.workers)
      if (known.host == worker->name)
        worker->cpu_wait_share = known.cpu_wait_share;
    workers.push_back(std::move(*worker));
  }
  if (workers.empty())
    return {std::filesystem::exists(told.run.observed() + "/joined")
                ? "the script joins by itself, so there was nothing to observe; batch sizes stayed as they are"
                : "nothing was observed: no training process made a DistributedDataParallel and ended by itself"};
  if (workers.size() < all.size())
    return {fmt::format("only {} of {} training processes have told what was observed", workers.size(), all.size())};
  const auto seen = observe(std::move(workers));
  table = observed_table(seen);
  auto sentences = to_sentences(seen);
  if (seen.samples_per_second > 0) {
    const kept_estimate kept{.command = told.command,
                             .workers = seen.workers.size(),
                             .samples_per_second = seen.samples_per_second,
                             .gain = seen.gain};
    if (const auto problem = storage::write_file_atomically(estimate_file(told.run.path()), to_json(kept));
        !problem.empty())
      sentences.push_back(problem);
  }
  return sentences;
}

std::vector<std::string> tell_shadow(const told_run& told) {
  std::optional<ledger::window> newest;
  ledger::line_reader lines(told.run.ledger());
  for (std::string line; lines.next(line);)
    if (auto row = ledger::parse_line(line))
      if (auto* window = std::get_if<ledger::window>(&row->entry); window != nullptr && window->decided)
        newest = std::move(*window);
  if (!newest)
    return {};
  return {fmt::format("shadow mode: {} would have given {} samples per step in window {}; they had {}",
                      cluster::to_string(told.file.arbitrator.policy),
                      listed(newest->workers,
                             [](const auto& worker) {
                               return fmt::format("{} {}", printable(worker.report.host), worker.proposed_batch);
                             }),
                      newest->key.window,
                      listed(newest->workers, [](const auto& worker) { return std::to_string(worker.report.batch); }))};
}

std::vector<std::string> tell_comparison(const told_run& told) {
  namespace fs = std::filesystem;
  std::error_code failed;
  std::optional<kept_estimate> newest;
  fs::file_time_type newest_time;
  const auto beside = fs::absolute(told.run.path(), failed).lexically_normal().parent_path();
  for (fs::directory_iterator at(beside, failed), end; !failed && at != end; at.increment(failed)) {
    std::error_code missing;
    const auto time = fs::last_write_time(estimate_file(at->path().string()), missing);
    if (missing || (newest && time < newest_time))
      continue;
    auto kept = read_estimate(at->path().string());
    if (!kept || kept->command != told.command || kept->workers != told.file.workers().size())
      continue;
    newest = std::move(kept);
    newest_time = time;
  }
  if (!newest)
    return {};
  std::string problem;
  const auto records = read_run(told.run, problem);
  const double speed = problem.empty() ? settled_samples_per_second(records) : 0;
  return speed > 0 ? std::vector{compare(*newest, speed)} : std::vector<std::string>{};
}

} // namespace dynamix::node
