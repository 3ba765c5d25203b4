#include "node/run_course.hpp"

#include "node/text.hpp"

#include <utility>

namespace dynamix::node {
namespace {

constexpr std::size_t guard_causes_most = 64;

} // namespace

run_course::run_course(const cluster::cluster_file& file)
    : recorder_(file), decisions_(!file.arbitrator.replicas.empty()) {}

void run_course::add(const ledger::row& row) {
  decisions_.add(row);
  samples_.add(row);
  add_life(row);
  if (const auto* window = std::get_if<ledger::window>(&row.entry))
    add_window(*window);
}

void run_course::add_window(const ledger::window& window) {
  recorder_.add(window);
  bool guarded = false;
  for (const auto& worker : window.workers) {
    by_host_[worker.report.host].add(worker);
    ++late_.reports;
    if (worker.stale) {
      ++late_.stale;
      ++late_.by_host[worker.report.host];
    }
    if (worker.intervention.empty())
      continue;
    guarded = true;
    const auto cause = printable(worker.intervention);
    if (guard_causes_.size() < guard_causes_most || guard_causes_.contains(cause))
      ++guard_causes_[cause];
  }
  windows_decided_ += window.decided ? 1 : 0;
  windows_guarded_ += window.decided && guarded ? 1 : 0;
  add_learning(window);
}

void run_course::add_learning(const ledger::window& window) {
  mean rewards;
  mean shares;
  for (const auto& worker : window.workers) {
    if (!worker.stale)
      rewards.add(worker.reward.total);
    if (worker.probabilities.size() > 1)
      shares.add(entropy_share(worker.probabilities));
  }
  if (rewards.weight > 0)
    learning_.rewards.push_back(rewards.value());
  if (shares.weight > 0)
    learning_.entropy_shares.push_back(shares.value());
}

void run_course::add_life(const ledger::row& row) {
  if (const auto* start = std::get_if<ledger::start>(&row.entry)) {
    if (!std::exchange(begun_, false) && life_.starts > 0)
      return; // replicas that share a ledger start together
    life_.generations += generations_.size();
    generations_.clear();
    if (life_.starts++ == 0)
      life_.started_at = start->started_at;
    return;
  }
  begun_ = true;
  if (const auto* window = std::get_if<ledger::window>(&row.entry)) {
    generations_.insert(window->generation);
    life_.policy_version = window->policy_version;
  } else if (const auto* generation = std::get_if<ledger::generation>(&row.entry)) {
    generations_.insert(generation->generation);
    life_.steps_lost += generation->steps_lost;
  } else if (const auto* event = std::get_if<ledger::event>(&row.entry)) {
    life_.actors_restarted += event->event == "restarted" ? 1 : 0;
  }
}

run_course::lives run_course::life() const {
  auto now = life_;
  now.generations += generations_.size();
  return now;
}

const worker_course* run_course::find_worker(const std::string& host) const {
  const auto found = by_host_.find(host);
  return found == by_host_.end() ? nullptr : &found->second;
}

} // namespace dynamix::node
