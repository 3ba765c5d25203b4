#include "faults/recovery.hpp"

#include <algorithm>

namespace dynamix::faults {

bool recovery_tracker::has_role(const std::string& host, cluster::role role) const {
  const auto* found = file_.find(host);
  return found != nullptr && found->has(role);
}

/// Those that are members of generations by the names of their targets: a host, or a worker of one.
std::vector<std::string> recovery_tracker::members_of(const std::vector<std::string>& targets) const {
  std::vector<std::string> members;
  for (const auto& target : targets)
    if (const auto* found = file_.find(target); found != nullptr)
      for (const auto* member : found->members())
        members.push_back(member->name);
  return members;
}

/// Of several arbitrators one decides; the others are not missed.
bool recovery_tracker::decides(const std::string& host) const {
  return has_role(host, cluster::role::arbitrator) &&
         (file_.arbitrators().size() == 1 || leader_.empty() || leader_ == host);
}

void recovery_tracker::begin(const planned_fault& fault, double now_seconds) {
  records_.push_back({.plan = fault, .began_seconds = now_seconds});
  auto& open = waited_.emplace_back();
  // A process that ended is sure to be missed; of anything else the ledger says whether it was.
  const auto members = members_of(fault.hosts);
  if (row_of(fault.kind).ends_process || fault.kind == fault_kind::join)
    open.workers.insert(members.begin(), members.end());
  if (row_of(fault.kind).ends_process)
    for (const auto& host : fault.hosts) {
      if (decides(host))
        open.arbitrators.insert(host);
      if (has_role(host, cluster::role::arbitrator) && !file_.arbitrator.replicas.empty())
        open.voters.insert(host);
    }
}

void recovery_tracker::end(std::uint32_t number, double now_seconds) {
  const auto found = std::ranges::find(records_, number, [](const auto& each) { return each.plan.number; });
  if (found != records_.end())
    found->ended_seconds = now_seconds;
}

void recovery_tracker::add(const ledger::row& row, double now_seconds) {
  if (const auto* generation = std::get_if<ledger::generation>(&row.entry); generation != nullptr && !records_.empty())
    records_.back().steps_lost += generation->steps_lost;
  const auto* led = std::get_if<ledger::event>(&row.entry);
  if (led != nullptr && led->event == ledger::event_kind::leader)
    leader_ = led->host;
  for (std::size_t i = 0; i < records_.size(); ++i) {
    auto& record = records_[i];
    auto& open = waited_[i];
    if (record.recovered())
      continue;
    if (const auto* event = std::get_if<ledger::event>(&row.entry)) {
      add_event(*event, record, open, now_seconds);
    } else if (const auto* generation = std::get_if<ledger::generation>(&row.entry)) {
      add_generation(*generation, record, open, now_seconds);
    } else if (std::holds_alternative<ledger::start>(row.entry)) {
      open.arbitrators.clear(); // one that begins decides
      open.back_seconds = now_seconds;
    } else if (std::holds_alternative<ledger::window>(row.entry)) {
      close_window(record, open, now_seconds);
    }
  }
}

void recovery_tracker::add_event(const ledger::event& event, fault_record& record, waited& open, double now_seconds) {
  const auto members = members_of(record.plan.hosts);
  const bool target = std::ranges::find(members, event.host) != members.end();
  if (event.event == ledger::event_kind::leader || event.event == ledger::event_kind::follows)
    open.voters.erase(event.host);
  if (event.event == ledger::event_kind::leader) {
    open.arbitrators.clear(); // whoever it is decides
    open.back_seconds = now_seconds;
  } else if (event.event == ledger::event_kind::lost && target) {
    if (record.detected_seconds < 0)
      record.detected_seconds = now_seconds;
    open.workers.insert(event.host);
  } else if (event.event == ledger::event_kind::resumed && record.detected_seconds >= 0 && record.resumed_seconds < 0) {
    record.resumed_seconds = now_seconds;
  }
}

void recovery_tracker::add_generation(const ledger::generation& generation, fault_record& record, waited& open,
                                      double now_seconds) {
  const bool joins = record.plan.kind == fault_kind::join;
  const bool known = joins || record.detected_seconds >= 0;
  for (const auto& member : members_of(record.plan.hosts))
    if (!known && std::ranges::find(generation.members, member) == generation.members.end()) {
      record.detected_seconds = now_seconds;
      open.workers.insert(member);
    }
  // Before its loss is known a target is among the members still.
  if (joins || record.detected_seconds >= 0)
    for (const auto& member : generation.members)
      came_back(member, open, now_seconds);
}

void recovery_tracker::came_back(const std::string& worker, waited& open, double now_seconds) const {
  if (open.workers.erase(worker) > 0)
    open.back_seconds = now_seconds;
}

void recovery_tracker::close_window(fault_record& record, const waited& open, double now_seconds) const {
  // A run without its arbitrator closes no windows: the first is the sign that it decides again.
  const bool hits_arbitrator = std::ranges::any_of(
      record.plan.hosts, [this](const auto& host) { return has_role(host, cluster::role::arbitrator); });
  if (hits_arbitrator && open.arbitrators.empty() && open.back_seconds >= 0 && record.resumed_seconds < 0)
    record.resumed_seconds = now_seconds;
  if (record.ended_seconds >= 0 && open.workers.empty() && open.arbitrators.empty() && open.voters.empty())
    record.recovered_seconds = std::max({record.ended_seconds, open.back_seconds, now_seconds});
}

bool recovery_tracker::busy(double now_seconds) const {
  return std::ranges::any_of(records_, [&](const auto& record) {
    return !record.recovered() &&
           (record.ended_seconds < 0 || now_seconds - record.ended_seconds < recover_seconds_most_);
  });
}

} // namespace dynamix::faults
