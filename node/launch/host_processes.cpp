#include "node/launch/host_processes.hpp"

#include <algorithm>
#include <stdexcept>

namespace dynamix::node {

host_processes::host_processes(const std::vector<cluster::host>& hosts, const actors::supervision_options& rules,
                               describe_child describe)
    : describe_(std::move(describe)) {
  for (const auto& host : hosts) {
    auto options = rules;
    options.seed += entries_.size();
    entries_.push_back({.host = &host, .supervision = {options, {host.name}}});
  }
}

const host_processes::entry& host_processes::entry_of(const std::string& host) const {
  const auto found = std::ranges::find(entries_, host, [](const auto& each) { return each.host->name; });
  if (found == entries_.end())
    throw std::out_of_range("no host is called " + host);
  return *found;
}

host_processes::entry& host_processes::entry_of(const std::string& host) {
  return const_cast<entry&>(std::as_const(*this).entry_of(host));
}

std::string host_processes::start(entry& of, bool resumed) {
  of.restart_at_seconds.reset();
  child_process process;
  if (auto problem = process.start(describe_(*of.host, resumed)); !problem.empty())
    return problem;
  of.process = std::move(process);
  of.seen_ended = false;
  ++of.starts;
  return "";
}

std::string host_processes::start_all(bool resumed, const std::set<std::string>& later) {
  for (auto& each : entries_)
    if (const auto problem = later.contains(each.host->name) ? "" : start(each, resumed); !problem.empty())
      return "host \"" + each.host->name + "\": " + problem;
  return "";
}

std::vector<host_end> host_processes::reap() {
  std::vector<host_end> ended;
  for (auto& each : entries_)
    if (const auto exit = each.process.poll(); exit && !each.seen_ended) {
      each.seen_ended = true;
      ended.push_back({each.host->name, *exit});
    }
  std::ranges::stable_sort(
      ended, [](const auto& left, const auto& right) { return left.exit.by_signal > right.exit.by_signal; });
  return ended;
}

actors::restart_plan host_processes::failed(const std::string& host, double now_seconds, const std::string& cause) {
  auto& failed = entry_of(host);
  auto plan = failed.supervision.failed(0, now_seconds, cause);
  if (plan.escalate)
    failed.given_up = true;
  else
    failed.restart_at_seconds = now_seconds + plan.delay_seconds;
  return plan;
}

std::vector<failed_start> host_processes::start_due(double now_seconds) {
  std::vector<failed_start> failures;
  for (auto& each : entries_) {
    if (each.held || !each.restart_at_seconds || *each.restart_at_seconds > now_seconds)
      continue;
    if (auto problem = start(each, each.starts > 0); !problem.empty()) {
      auto plan = failed(each.host->name, now_seconds, problem);
      failures.push_back({each.host->name, std::move(problem), std::move(plan)});
    }
  }
  return failures;
}

void host_processes::cancel_restarts() {
  for (auto& each : entries_)
    each.restart_at_seconds.reset();
}

void host_processes::signal(const std::string& host, int number) {
  entry_of(host).process.signal(number);
}

void host_processes::signal_all(int number) {
  for (auto& each : entries_)
    each.process.signal(number);
}

pid_t host_processes::id(const std::string& host) {
  auto& process = entry_of(host).process;
  return process.running() ? process.id() : 0;
}

bool host_processes::any_running(bool workers_only) const {
  return std::ranges::any_of(entries_, [&](const auto& each) {
    return (!workers_only || each.host->has(cluster::role::worker)) && !each.seen_ended;
  });
}

bool host_processes::restart_pending(bool workers_only) const {
  return std::ranges::any_of(entries_, [&](const auto& each) {
    return (!workers_only || each.host->has(cluster::role::worker)) && each.restart_at_seconds.has_value();
  });
}

std::map<std::string, std::uint64_t> host_processes::restarts() const {
  std::map<std::string, std::uint64_t> counted;
  for (const auto& each : entries_)
    if (each.starts > 1)
      counted[each.host->name] = each.starts - 1;
  return counted;
}

std::vector<std::string> host_processes::names() const {
  std::vector<std::string> names;
  for (const auto& each : entries_)
    names.push_back(each.host->name);
  return names;
}

} // namespace dynamix::node
