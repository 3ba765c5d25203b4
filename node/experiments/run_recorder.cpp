#include "cluster/places.hpp"
#include "node/experiments/run_outcome.hpp"
#include "node/reports/run_records.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/core.h>
#include <tuple>

namespace dynamix::node {
namespace {

double mean_over(double total, double count) {
  return count > 0 ? total / count : 0;
}

} // namespace

void thinned_rows::add(std::vector<double> row) {
  if (count_++ % stride_ == 0) {
    kept_.push_back(row);
    if (kept_.size() > limit_) { // every second one from here on
      for (std::size_t i = 0; 2 * i < kept_.size(); ++i)
        kept_[i].swap(kept_[2 * i]);
      kept_.resize((kept_.size() + 1) / 2);
      stride_ *= 2;
    }
  }
  last_ = std::move(row);
}

std::vector<std::vector<double>> thinned_rows::rows() const {
  auto all = kept_;
  if (count_ > 0 && (count_ - 1) % stride_ != 0)
    all.push_back(last_);
  return all;
}

run_recorder::run_recorder(const cluster::cluster_file& file) {
  const auto all = cluster::with_places(file);
  for (const auto* host : all.workers()) {
    worker_totals worker{.summary = {}, .place = cluster::is_place(*host)};
    if (worker.place) {
      worker.hosts = 0;
    } else {
      worker.summary = ledger::describe_worker(*host);
      ranks_.emplace(host->name, workers_.size());
    }
    worker.summary.rank = static_cast<std::uint32_t>(workers_.size());
    workers_.push_back(worker);
  }
}

run_recorder::worker_totals* run_recorder::find(const messages::window_report& report) {
  const auto known = ranks_.find(report.host);
  if (known != ranks_.end() && (known->second == report.rank || !workers_[known->second].place))
    return &workers_[known->second];
  if (report.rank >= workers_.size() || !workers_[report.rank].place)
    return nullptr;
  if (known != ranks_.end())
    ranks_.erase(known);
  auto& worker = workers_[report.rank];
  if (const auto before = ranks_.find(worker.summary.host); before != ranks_.end() && before->second == report.rank)
    ranks_.erase(before);
  ranks_.emplace(report.host, report.rank);
  worker.hosts += worker.summary.host != report.host ? 1 : 0;
  worker.summary.host = report.host;
  return &worker;
}

std::vector<const run_recorder::worker_totals*> run_recorder::seen() const {
  std::vector<const worker_totals*> all;
  for (const auto& worker : workers_)
    if (worker.hosts > 0)
      all.push_back(&worker);
  return all;
}

void run_recorder::add(const ledger::window& window) {
  double seconds = 0;
  bool intervened = false;
  const auto row_of_all = columns_.add(window);
  windows_kept_.add({row_of_all.begin(), row_of_all.end()});
  for (auto& worker : workers_)
    worker.batch = absent;
  for (const auto& row : window.workers) {
    decisions_ += window.decided ? 1 : 0;
    changes_ += window.decided && row.decided_batch != row.assigned_batch ? 1 : 0;
    intervened = intervened || !row.intervention.empty();
    auto* known = find(row.report);
    if (known == nullptr)
      continue;
    auto& worker = *known;
    worker.batch = row.report.batch;
    if (row.stale) // counted with its own window
      continue;
    auto& summary = worker.summary;
    if (summary.steps == 0)
      summary.first_batch = row.report.batch;
    summary.last_batch = row.report.batch;
    ledger::add_training(summary, row.report.training);
    rewards_ += row.reward.total;
    ++rewarded_;
    seconds = std::max(seconds, row.report.elapsed_seconds);
  }
  windows_ += window.decided ? 1 : 0;
  interventions_ += intervened ? 1 : 0;
  add_batches(seconds);
}

/// The first workers' batch sizes, and behind them the highest, the median and the lowest of all: an open cluster may
/// become too large to draw each of its workers.
void run_recorder::add_batches(double seconds) {
  std::vector<double> row = {seconds};
  std::vector<double> all;
  for (const auto& worker : workers_) {
    if (worker.summary.rank < workers_drawn)
      row.push_back(worker.batch);
    if (!std::isnan(worker.batch))
      all.push_back(worker.batch);
  }
  std::ranges::sort(all, std::greater<>());
  row.resize(1 + workers_drawn, absent);
  for (const auto place : {std::size_t{0}, all.size() / 2, all.size() - 1})
    row.push_back(all.empty() ? absent : all[place]);
  batches_.add(std::move(row));
}

run_outcome run_recorder::outcome() const {
  run_outcome outcome{.windows = windows_,
                      .decisions = decisions_,
                      .changes = changes_,
                      .interventions = interventions_,
                      .reward = mean_over(rewards_, rewarded_)};
  double steps = 0;
  for (const auto& worker : workers_) {
    steps += worker.summary.timed_steps;
    outcome.compute_seconds += worker.summary.compute_seconds;
    outcome.exchange_seconds += worker.summary.exchange_seconds;
    outcome.data_seconds += worker.summary.data_seconds;
  }
  for (double* total : {&outcome.compute_seconds, &outcome.exchange_seconds, &outcome.data_seconds})
    *total = mean_over(*total, steps);
  auto& series = outcome.series;
  for (const auto& row : accuracies_.rows()) {
    series.accuracy_seconds.push_back(row[0]);
    series.accuracy.push_back(row[1]);
  }
  for (const auto& kept : windows_kept_.rows()) {
    series.windows.rows.emplace_back();
    std::copy(kept.begin(), kept.end(), series.windows.rows.back().begin());
  }
  const auto drawn = seen();
  std::vector<std::size_t> cells;
  if (!drawn.empty() && drawn.back()->summary.rank >= workers_drawn) {
    series.batch_names = {"highest", "median", "lowest"};
    cells = {1 + workers_drawn, 2 + workers_drawn, 3 + workers_drawn};
  } else {
    for (const auto* worker : drawn) {
      const auto& [host, rank] = std::tie(worker->summary.host, worker->summary.rank);
      series.batch_names.push_back(worker->hosts == 1 ? host : fmt::format("rank {}, last {}", rank, host));
      cells.push_back(1 + rank);
    }
  }
  series.batches.resize(cells.size());
  for (const auto& row : batches_.rows()) {
    series.batch_seconds.push_back(row[0]);
    for (std::size_t i = 0; i < cells.size(); ++i)
      series.batches[i].push_back(row[cells[i]]);
  }
  return outcome;
}

std::vector<worker_summary> run_recorder::workers() const {
  std::vector<worker_summary> all;
  std::uint64_t samples = 0;
  for (const auto* worker : seen()) {
    auto summary = worker->summary;
    samples += summary.samples;
    summary.mean_batch = mean_over(static_cast<double>(summary.samples), summary.steps);
    for (double* total :
         {&summary.step_seconds, &summary.compute_seconds, &summary.exchange_seconds, &summary.data_seconds})
      *total = mean_over(*total, summary.timed_steps);
    all.push_back(summary);
  }
  for (auto& summary : all)
    summary.share = samples > 0 ? static_cast<double>(summary.samples) / static_cast<double>(samples) : 0;
  return all;
}

run_outcome outcome_of(const run_records& records, const run_summary& summary) {
  auto recorder = records.recorder;
  for (const auto& evaluation : records.evaluations)
    recorder.add_accuracy(evaluation.elapsed_seconds, evaluation.test_accuracy);
  auto outcome = recorder.outcome();
  outcome.policy = summary.policy;
  outcome.static_batch =
      records.file.arbitrator.policy == cluster::policy_kind::static_best ? records.file.arbitrator.static_batch : 0;
  outcome.seed = summary.seed;
  outcome.failure = summary.succeeded ? "" : summary.reason.empty() ? "the run failed" : summary.reason;
  outcome.seconds = summary.wall_seconds;
  outcome.seconds_to_target = summary.seconds_to_target;
  outcome.final_accuracy = summary.final_accuracy;
  outcome.samples = summary.samples;
  return outcome;
}

} // namespace dynamix::node
