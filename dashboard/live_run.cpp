#include "dashboard/live_run.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dynamix::dashboard {
namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t worker_history_rows_min = 64;

std::size_t worker_history_rows(std::size_t workers) {
  const auto rows = worker_history_cells / std::max<std::size_t>(workers, 1) / 2 * 2;
  return std::clamp(rows, worker_history_rows_min, history_rows);
}

std::string fit(const std::string& text) {
  return text.size() <= text_bytes_kept ? text : text.substr(0, text_bytes_kept) + "...";
}

template <class Deque>
void trim(Deque& kept, std::size_t most) {
  while (kept.size() > most)
    kept.pop_front();
}

} // namespace

void duration_histogram::add(double seconds) {
  const auto place = std::ranges::lower_bound(bounds, seconds) - bounds.begin();
  ++counts[static_cast<std::size_t>(place)];
  sum += seconds;
}

live_run::live_run(const cluster::cluster_file& file)
    : file_(file), rewards_are_logarithms_(file.reward_in_force() == cluster::reward_kind::progress),
      history_(signal_count, history_rows), batches_(file.workers().size(), worker_history_rows(file.workers().size())),
      work_seconds_(file.workers().size(), worker_history_rows(file.workers().size())), policies_(3, history_rows) {
  const auto highest = file.highest_by_rank();
  for (const auto* host : file.workers()) {
    rank_of_[host->name] = workers_.size();
    workers_.push_back(
        {.name = host->name, .batch_lowest = file.batch.lowest, .batch_highest = highest[workers_.size()]});
  }
  newest_.fill(static_cast<float>(unknown));
}

live_worker* live_run::find(const std::string& name) {
  const auto found = rank_of_.find(name);
  return found == rank_of_.end() ? nullptr : &workers_[found->second];
}

void live_run::take(const ledger::row& row) {
  ++totals_.rows;
  at_seconds_ = row.at_seconds;
  std::visit([this](const auto& entry) { take(entry); }, row.entry);
}

/// Another life of the arbitrator: its ledger's clock and the run go on from where they are.
void live_run::take(const ledger::start& start) {
  if (!start_.cluster.empty())
    note("arbitrator", "the arbitrator began anew");
  start_ = start;
  ending_.clear();
  for (auto& worker : workers_)
    if (worker.state == worker_state::ended)
      worker.state = worker_state::waiting;
}

void live_run::take(const ledger::evaluation& evaluation) {
  evaluations_.push_back(evaluation.report);
  evaluations_.back().elapsed_seconds += skipped_seconds_;
  if (evaluations_.size() <= history_rows)
    return;
  for (std::size_t i = 1; i < evaluations_.size(); ++i) // every other of the past
    evaluations_.erase(evaluations_.begin() + static_cast<std::ptrdiff_t>(i));
}

void live_run::take(const ledger::policy_version& policy) {
  policy_ = policy;
  const float row[] = {newest(signal::elapsed_seconds), static_cast<float>(policy.entropy),
                       static_cast<float>(policy.approximate_kl)};
  policies_.add(row);
}

void live_run::take(const ledger::generation& generation) {
  generation_ = generation.generation;
  ++totals_.generations;
  totals_.steps_lost += generation.steps_lost;
  ending_.clear(); // one that had left in order was not the last
  for (auto& worker : workers_)
    if (worker.state == worker_state::training)
      worker.state = worker_state::lost;
  for (const auto& name : generation.members)
    if (auto* worker = find(name))
      worker->state = worker_state::training;
  const auto text = "generation " + std::to_string(generation.generation) + " of " +
                    std::to_string(generation.members.size()) + " workers" +
                    (generation.reason.empty() ? "" : ": " + generation.reason);
  if (generation.generation > 1)
    note("generation", text);
  note_event("generation", "", text);
}

void live_run::take(const ledger::event& event) {
  auto* worker = find(event.host);
  if (event.event == "lost") {
    note("fault", event.host + " lost" + (event.text.empty() ? "" : ": " + event.text));
    if (worker != nullptr)
      worker->state = worker_state::lost;
  } else if (worker != nullptr && (event.event == "joined" || event.event == "rejoined")) {
    if (worker->state == worker_state::lost)
      note("back", event.host + " is back");
    worker->state = worker_state::waiting;
  } else if (event.event == "leader") {
    leader_ = event.host;
    note("leader", event.host + " leads");
  } else if (event.event == "restarted") {
    note("fault", "restarted: " + event.text);
  }
  note_event(event.event, event.host, event.text);
}

void live_run::take(const ledger::farewell& farewell) {
  if (auto* worker = find(farewell.farewell.host))
    worker->state = worker_state::ended;
  const bool going_on =
      std::ranges::any_of(workers_, [](const auto& worker) { return worker.state == worker_state::training; });
  if (!going_on)
    ending_ = fit(farewell.farewell.reason.empty() ? "ended" : farewell.farewell.reason);
  note_event("farewell", farewell.farewell.host, farewell.farewell.reason);
}

void live_run::take(const ledger::shard& shard) {
  const auto before = shards_.find(shard.name);
  if (before == shards_.end() && shards_.size() >= shards_kept)
    return;
  const bool changed = before == shards_.end() || before->second.state != shard.state;
  if (before != shards_.end() && changed && shard.state != "ended")
    note(shard.state == "up" ? "back" : "fault", "arbitrator of " + shard.name + " " + shard.state);
  shards_[shard.name] = shard;
}

void live_run::note(const std::string& kind, const std::string& text) {
  const auto elapsed = newest(signal::elapsed_seconds);
  const auto samples = newest(signal::samples);
  marks_.push_back({.elapsed_seconds = std::isnan(elapsed) ? 0 : elapsed,
                    .samples = std::isnan(samples) ? 0 : samples,
                    .kind = kind,
                    .text = fit(text)});
  trim(marks_, marks_kept);
}

void live_run::note_event(const std::string& event, const std::string& host, const std::string& text) {
  if (totals_.events.size() < event_names_kept || totals_.events.contains(event))
    ++totals_.events[event];
  const auto elapsed = newest(signal::elapsed_seconds);
  events_.push_back({.at_seconds = at_seconds_,
                     .elapsed_seconds = std::isnan(elapsed) ? 0 : elapsed,
                     .event = fit(event),
                     .host = host,
                     .text = fit(text)});
  trim(events_, events_kept);
}

} // namespace dynamix::dashboard
