#include "ledger/decision_count.hpp"

#include "messages/leave.hpp"

#include <algorithm>
#include <utility>

namespace dynamix::ledger {
namespace {

/// Of one stretch. Those before count as arrived: a run in which nothing is ever applied must not fill memory.
constexpr std::size_t unproven_most = 4096;
constexpr std::size_t taken_back_most = 64;

} // namespace

void decision_count::stretch::prove(messages::decision_key applied) {
  const auto found = std::ranges::find(unproven, applied);
  if (found != unproven.end())
    unproven.erase(unproven.begin(), found + 1);
}

void decision_count::host_count::decide(messages::decision_key key) {
  ++made;
  if (stretches.empty() || !stretches.back().ended.empty())
    stretches.emplace_back();
  if (stretches.size() > ends_kept) {
    old_ends[stretches.front().ended] += stretches.front().unproven.size();
    stretches.pop_front();
  }
  auto& unproven = stretches.back().unproven;
  unproven.push_back(key);
  if (unproven.size() > unproven_most)
    unproven.pop_front();
  if (left)
    end("leave");
}

/// It was not made, as far as is known.
void decision_count::host_count::take_back(messages::decision_key key) {
  --made;
  for (auto& one : stretches)
    std::erase(one.unproven, key);
  taken_back.push_back(key);
  if (taken_back.size() > taken_back_most)
    taken_back.pop_front();
}

/// A shard may have decided too late for the root to hear of it: so its worker shows.
void decision_count::host_count::apply(messages::decision_key key) {
  const auto found = std::ranges::find(taken_back, key);
  if (found == taken_back.end())
    return;
  ++made;
  taken_back.erase(taken_back.begin(), found + 1);
}

void decision_count::host_count::end(const char* by) {
  if (!stretches.empty() && stretches.back().ended.empty())
    stretches.back().ended = by;
}

void decision_count::add(const ledger::row& row) {
  if (const auto* window = std::get_if<ledger::window>(&row.entry))
    add_window(*window);
  else if (const auto* by = std::get_if<ledger::tree>(&row.entry))
    add_tree(*by);
  else if (const auto* event = std::get_if<ledger::event>(&row.entry))
    add_event(*event);
  else if (const auto* said = std::get_if<ledger::farewell>(&row.entry))
    add_farewell(said->farewell);
  else if (std::holds_alternative<ledger::start>(row.entry) && !replicated_)
    end_all("arbitrator");
}

void decision_count::add_farewell(const messages::farewell& said) {
  if (!messages::tells_leave(said))
    return;
  auto& count = of(said.host);
  count.end("leave");
  count.left = true;
}

void decision_count::add_window(const ledger::window& window) {
  for (const auto& worker : window.workers) {
    const auto applied = worker.report.decision;
    if (const auto found = hosts_.find(worker.report.host); found != hosts_.end() && !worker.stale)
      found->second.apply(applied);
    if (applied == std::exchange(proven_, applied))
      continue;
    for (auto& [host, count] : hosts_) {
      for (auto& one : count.stretches)
        one.prove(applied);
      std::erase_if(count.stretches, [](const auto& one) { return !one.ended.empty() && one.unproven.empty(); });
    }
  }
  stood_in_.clear();
  if (!window.decided)
    return;
  newest_ = window.key;
  for (const auto& worker : window.workers) {
    if (worker.report.final)
      continue; // it ends, and takes no decision
    of(worker.report.host).decide(window.key);
    if (worker.stale)
      stood_in_.emplace(worker.report.rank, worker.report.host);
  }
}

/// A root that hears from a shard too late lets the reports before stand in. Nobody need have decided on these.
void decision_count::add_tree(const ledger::tree& by) {
  for (const auto& account : by.accounts)
    for (const auto rank : account.ranks)
      stood_in_.erase(rank);
  for (const auto& [rank, host] : stood_in_)
    if (const auto found = hosts_.find(host); found != hosts_.end())
      found->second.take_back(newest_);
  stood_in_.clear();
}

decision_count::host_count& decision_count::of(const std::string& host) {
  auto& count = hosts_[host];
  count.used = ++uses_;
  if (hosts_.size() > hosts_kept)
    hosts_.erase(std::ranges::min_element(hosts_, {}, [](const auto& each) { return each.second.used; }));
  return count;
}

void decision_count::add_event(const ledger::event& event) {
  if (event.event == ledger::event_kind::joined)
    hosts_.erase(event.host); // a new process
  else if (event.event == ledger::event_kind::lost)
    of(event.host).end("worker");
  else if (event.event == ledger::event_kind::rejoined)
    of(event.host).end("generation"); // or its connection
  else if (event.event == ledger::event_kind::leader)
    end_all("arbitrator");
}

void decision_count::end_all(const char* by) {
  for (auto& [host, count] : hosts_)
    count.end(by);
}

std::map<std::string, decision_count::made> decision_count::by_host() const {
  std::map<std::string, made> all;
  for (const auto& [host, count] : hosts_) {
    auto& made = all[host];
    made.count = count.made;
    for (const auto& [by, most] : count.old_ends)
      made.ends.push_back({by, most});
    for (const auto& one : count.stretches)
      if (!one.ended.empty())
        made.ends.push_back({one.ended, one.unproven.size()});
  }
  return all;
}

} // namespace dynamix::ledger
