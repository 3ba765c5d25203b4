#include "ledger/run.hpp"

#include "cluster/places.hpp"
#include "ledger/text.hpp"
#include "messages/leave.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <ranges>

namespace dynamix::ledger {
namespace {

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

run::run(const cluster::cluster_file& file)
    : file_(cluster::with_places(file)), course_(file_.workers().size()),
      decisions_(!file.arbitrator.replicas.empty()) {
  const auto highest = file_.highest_by_rank();
  for (const auto* host : file_.workers()) {
    if (cluster::is_place(*host))
      break;
    rank_of_[host->name] = workers_.size();
    workers_.push_back(
        {.name = host->name, .batch_lowest = file.batch.lowest, .batch_highest = highest[workers_.size()]});
  }
}

live_worker* run::find(const std::string& name) {
  const auto found = rank_of_.find(name);
  return found == rank_of_.end() ? nullptr : &workers_[found->second];
}

/// A place of an open cluster is the host's that speaks from its rank; what is known of another that had it is dropped.
void run::seat(const std::string& host, std::uint32_t rank) {
  const auto known = rank_of_.find(host);
  if (known != rank_of_.end() && known->second == rank)
    return;
  const auto hosts = file_.workers();
  if (rank >= hosts.size() || !cluster::is_place(*hosts[rank]) || !cluster::is_worker_name(host) ||
      (known != rank_of_.end() && !cluster::is_place(*hosts[known->second])))
    return;
  const auto empty = [&](std::size_t place) {
    return live_worker{
        .name = hosts[place]->name, .batch_lowest = file_.batch.lowest, .batch_highest = file_.batch.highest};
  };
  while (workers_.size() <= rank)
    workers_.push_back(empty(workers_.size()));
  if (known != rank_of_.end()) {
    workers_[known->second] = empty(known->second);
    rank_of_.erase(known);
  }
  farewells_.erase(workers_[rank].name);
  rank_of_.erase(workers_[rank].name);
  workers_[rank] = empty(rank);
  workers_[rank].name = host;
  rank_of_[host] = rank;
}

const live_worker* run::find_worker(const std::string& name) const {
  const auto found = rank_of_.find(name);
  return found == rank_of_.end() ? nullptr : &workers_[found->second];
}

std::vector<double> run::batches_of(const std::string& name) const {
  std::vector<double> values;
  if (const auto found = rank_of_.find(name); found != rank_of_.end())
    for (std::size_t row = 0; row < course_.batches().rows(); ++row)
      if (const double batch = course_.batches().row(row)[found->second]; !std::isnan(batch))
        values.push_back(batch);
  return values;
}

void run::add(const ledger::row& row) {
  ++totals_.rows;
  at_seconds_ = row.at_seconds;
  decisions_.add(row);
  if (const auto* window = std::get_if<ledger::window>(&row.entry); window != nullptr && is_told_again(*window)) {
    term_ = window->key.term;
    begun_ = true;
    return;
  }
  progress_.add(row);
  samples_.add(row);
  std::visit([this](const auto& entry) { take(entry); }, row.entry);
  begun_ = !std::holds_alternative<ledger::start>(row.entry);
}

/// Another life of the arbitrator: its ledger's clock and the run go on from where they are.
void run::take(const ledger::start& start) {
  start_ = start;
  equal_batches_.begin(start);
  farewells_.clear(); // those before belong to an earlier life of the run
  if (totals_.lives > 0 && !begun_)
    return; // replicas that share a ledger start together
  if (totals_.lives++ > 0)
    note(mark_kind::arbitrator, "the arbitrator began anew");
  if (starts_.size() < starts_kept)
    starts_.push_back(start);
  life_generation_ = 0;
  ending_.clear();
  counted_.clear(); // a resumed run trains windows again
  for (auto& worker : workers_)
    if (worker.state == worker_state::ended)
      worker.state = worker_state::waiting;
}

void run::take(const ledger::evaluation& evaluation) {
  while (!evaluations_.empty() && evaluations_.back().step >= evaluation.report.step)
    evaluations_.pop_back(); // a resumed run evaluates again
  evaluations_.push_back(evaluation.report);
  evaluations_.back().elapsed_seconds += course_.skipped_seconds();
  if (evaluations_.size() <= history_rows)
    return;
  for (std::size_t i = 1; i < evaluations_.size(); ++i) // every other of the past
    evaluations_.erase(evaluations_.begin() + static_cast<std::ptrdiff_t>(i));
}

void run::take(const ledger::policy_version& policy) {
  policy_ = policy;
  course_.add(policy);
}

void run::take(const ledger::generation& generation) {
  generation_ = generation.generation;
  count_generation(generation.generation);
  totals_.steps_lost += generation.steps_lost;
  ending_.clear();  // one that had left in order was not the last
  counted_.clear(); // what is trained again is reported again
  for (auto& worker : workers_)
    if (worker.state == worker_state::training)
      worker.state = worker_state::lost;
  for (const auto& name : generation.members)
    if (auto* worker = find(name))
      worker->state = worker_state::training;
  const auto workers = std::ranges::count_if(generation.members, [&](const auto& name) {
    const auto* known = file_.find(name);
    return known == nullptr || !known->only_serves();
  });
  const auto text = fmt::format("generation {} of {} workers{}{}", generation.generation, workers,
                                generation.reason.empty() ? "" : ": ", generation.reason);
  if (generation.generation > 1)
    note(mark_kind::generation, text);
  note_event("generation", "", text);
}

void run::take(const ledger::event& event) {
  note_event(messages::name_of(event.event), event.host, event.text);
  const bool known = file_.find(event.host) != nullptr;
  switch (event.event) {
  case event_kind::lost:
    note(mark_kind::fault, event.host + " lost" + (event.text.empty() ? "" : ": " + event.text));
    if (auto* worker = find(event.host))
      worker->state = worker_state::lost;
    if (known)
      ++totals_.lost[event.host];
    break;
  case event_kind::joined:
    farewells_.erase(event.host); // what its process before said last is no longer the last
    come_back(event.host);
    break;
  case event_kind::rejoined:
    come_back(event.host);
    break;
  case event_kind::leader:
    leader_ = event.host;
    left_.erase(event.host);
    note(mark_kind::leader, event.host + " leads");
    break;
  case event_kind::follows:
    left_.erase(event.host);
    break;
  case event_kind::left:
    if (known)
      left_.insert(event.host);
    break;
  case event_kind::restarted:
    note(mark_kind::fault, "restarted: " + event.text);
    break;
  case event_kind::warning:
    warnings_.push_back((event.host.empty() ? "" : event.host + ": ") + printable(event.text));
    trim(warnings_, warnings_kept);
    break;
  default:
    break;
  }
}

void run::come_back(const std::string& host) {
  auto* worker = find(host);
  if (worker == nullptr)
    return;
  if (worker->state == worker_state::lost)
    note(mark_kind::back, host + " is back");
  worker->state = worker_state::waiting;
}

void run::count_generation(std::uint64_t generation) {
  totals_.generations += generation > life_generation_ ? 1 : 0;
  life_generation_ = std::max(life_generation_, generation);
}

void run::take(const ledger::farewell& farewell) {
  const auto* known = file_.find(farewell.farewell.host);
  if (known != nullptr && known->only_serves()) // what it says of training is nothing
    return note_event("farewell", farewell.farewell.host, farewell.farewell.reason);
  if (farewell.farewell.steps > 0)
    seat(farewell.farewell.host, farewell.farewell.rank);
  if (known != nullptr || rank_of_.contains(farewell.farewell.host))
    farewells_[farewell.farewell.host] = farewell.farewell;
  if (auto* worker = find(farewell.farewell.host))
    worker->state = worker_state::ended;
  const bool going_on =
      std::ranges::any_of(workers_, [](const auto& worker) { return worker.state == worker_state::training; });
  if (!going_on)
    ending_ = fit(farewell.farewell.reason.empty() ? "ended" : farewell.farewell.reason);
  note_event("farewell", farewell.farewell.host, farewell.farewell.reason);
}

bool run::ended_well() const {
  const auto well = [](const auto& each) { return each.second.succeeded; };
  const auto left = [](const auto& each) { return messages::tells_leave(each.second); };
  return ended() && (std::ranges::any_of(farewells_, well) || std::ranges::all_of(farewells_, left));
}

void run::take(const ledger::shard& shard) {
  const auto before = shards_.find(shard.name);
  if (before == shards_.end() && shards_.size() >= shards_kept)
    return;
  const bool changed = before == shards_.end() || before->second.state != shard.state;
  if (before != shards_.end() && changed && shard.state != shard_state::ended)
    note(shard.state == shard_state::up || shard.state == shard_state::standby ? mark_kind::back : mark_kind::fault,
         fmt::format("arbitrator of {} {}", shard.name, messages::name_of(shard.state)));
  shards_[shard.name] = shard;
}

void run::note(mark_kind kind, const std::string& text) {
  const auto elapsed = course_.newest(signal::elapsed_seconds);
  const auto samples = course_.newest(signal::samples);
  marks_.push_back({.elapsed_seconds = std::isnan(elapsed) ? 0 : elapsed,
                    .samples = std::isnan(samples) ? 0 : samples,
                    .kind = kind,
                    .text = fit(text)});
  trim(marks_, marks_kept);
}

void run::note_event(std::string_view event, const std::string& host, const std::string& text) {
  ++totals_.events[event];
  const auto elapsed = course_.newest(signal::elapsed_seconds);
  events_.push_back({.at_seconds = at_seconds_,
                     .elapsed_seconds = std::isnan(elapsed) ? 0 : elapsed,
                     .event = event,
                     .host = host,
                     .text = fit(text)});
  trim(events_, events_kept);
}

bool run::is_told_again(const ledger::window& window) const {
  const auto counted = [this](const ledger::worker& judged) { return counted_.has(judged.report); };
  const auto timely = [](const ledger::worker& judged) { return !judged.stale; };
  auto reported = window.workers | std::views::filter(timely);
  return !reported.empty() && std::ranges::all_of(reported, counted);
}

void run::take(const ledger::window& window) {
  window_ = window.key.window;
  term_ = window.key.term;
  policy_version_ = window.policy_version;
  generation_ = std::max(generation_, window.generation);
  count_generation(window.generation);
  ++totals_.windows;
  totals_.gather.add(window.gather_seconds);
  totals_.decide.add(window.decide_seconds);
  for (const auto& judged : window.workers)
    seat(judged.report.host, judged.report.rank);
  for (const auto& judged : window.workers)
    take(judged);
  totals_.moves += policy::moves_in(window);
  equal_batches_.add(window);
  if (window.decided) {
    ++totals_.decided_windows;
    totals_.decisions += window.workers.size();
    totals_.intervened_windows += is_guarded(window) ? 1 : 0;
  }
  course_.add(window, rank_of_, start_.dataset_samples);
  recent_.add(window);
}

void run::take(const ledger::worker& judged) {
  ++totals_.reports;
  totals_.stale_reports += judged.stale ? 1 : 0;
  if (judged.probabilities.size() > 1)
    choices_ = judged.probabilities.size();
  if (!judged.intervention.empty())
    if (const auto cause = printable(judged.intervention);
        totals_.guard_causes.size() < guard_causes_kept || totals_.guard_causes.contains(cause))
      ++totals_.guard_causes[cause];
  auto* worker = find(judged.report.host);
  if (worker == nullptr)
    return;
  worker->course.add(judged);
  worker->stale = judged.stale;
  worker->decided_batch = judged.decided_batch;
  worker->intervention = judged.intervention.substr(0, text_bytes_kept);
  if (judged.stale) {
    ++worker->stale_reports;
    return;
  }
  if (!counted_.count(judged.report))
    return;
  const auto& training = judged.report.training;
  const double seconds = training.steps * training.iteration_seconds;
  worker->reported = true;
  worker->state = worker_state::training; // also where a new arbitrator took the generation over as it is
  worker->report = judged.report;
  worker->parts = parts_of(judged);
  worker->samples_per_second = samples_per_second(training);
  worker->reward = judged.reward.total;
  worker->samples += training.samples;
  worker->retransmissions += judged.report.network.retransmissions;
  worker->training_seconds += seconds;
  worker->telemetry_seconds += judged.report.telemetry_seconds;
  worker->control_seconds += judged.report.control_seconds;
  totals_.samples += training.samples;
}

} // namespace dynamix::ledger
