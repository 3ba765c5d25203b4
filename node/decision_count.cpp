#include "node/decision_count.hpp"

#include <algorithm>

namespace dynamix::node {
namespace {

/// Rows of a replicated arbitrator are written when a majority keeps them, so some stand behind newer ones.
constexpr double disorder_seconds = 60;

} // namespace

void decision_count::host_count::decide(double at_seconds, double silence_seconds) {
  ++so_far.count;
  recent_seconds.push_back(at_seconds);
  while (recent_seconds.front() < at_seconds - silence_seconds - disorder_seconds)
    recent_seconds.pop_front();
}

void decision_count::host_count::interrupt(double since_seconds) {
  const auto recent = std::ranges::count_if(recent_seconds, [&](double at) { return at >= since_seconds; });
  so_far.on_their_way += std::max<std::uint64_t>(recent_seconds.empty() ? 0 : 1, static_cast<std::uint64_t>(recent));
  recent_seconds.clear();
}

void decision_count::add(const actors::ledger_row& row) {
  if (const auto* window = std::get_if<actors::ledger_window>(&row.entry); window != nullptr && window->decided) {
    for (const auto& worker : window->workers)
      hosts_[worker.report.host].decide(row.at_seconds, silence_seconds_);
  } else if (const auto* event = std::get_if<actors::ledger_event>(&row.entry)) {
    if (event->event == "joined")
      hosts_[event->host] = {}; // a new process
    else if (event->event == "lost")
      hosts_[event->host].interrupt(row.at_seconds - silence_seconds_);
    else if (event->event == "rejoined")
      hosts_[event->host].interrupt(row.at_seconds); // by a new connection, or for a new generation
  } else if (std::holds_alternative<actors::ledger_start>(row.entry)) {
    for (auto& [host, count] : hosts_)
      count.interrupt(row.at_seconds + 1e9); // another clock: only the newest
  }
}

std::map<std::string, decision_count::made> decision_count::by_host() const {
  std::map<std::string, made> all;
  for (const auto& [host, count] : hosts_)
    all[host] = count.so_far;
  return all;
}

} // namespace dynamix::node
