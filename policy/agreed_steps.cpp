#include "policy/agreed_steps.hpp"

#include "cluster/decision_steps.hpp"

#include <algorithm>
#include <fmt/core.h>
#include <map>
#include <tuple>

namespace dynamix::policy {
namespace {

constexpr std::uint64_t windows_off_most = 2;

std::uint64_t distance(std::uint64_t one, std::uint64_t other) {
  return std::max(one, other) - std::min(one, other);
}

struct said_steps {
  const messages::window_report* report;
  std::uint64_t end_step;
  std::uint64_t due_step;
};

/// The due step that most say.
std::uint64_t most_said(const std::vector<said_steps>& said, std::uint64_t expected) {
  std::map<std::uint64_t, std::size_t> counts;
  for (const auto& one : said)
    ++counts[one.due_step];
  const auto rank_of = [&](const auto& entry) {
    return std::tuple(said.size() - entry.second, distance(entry.first, expected), entry.first);
  };
  return std::ranges::min_element(counts, {}, rank_of)->first;
}

} // namespace

agreed_steps agree_on_steps(const messages::shard_report& window, std::uint32_t window_steps) {
  const auto due = [&](std::uint64_t first_step) {
    return std::min(cluster::decision_step(first_step, window_steps), messages::max_counter);
  };
  std::vector<said_steps> said;
  for (const bool in_time : {true, false}) {
    for (const auto& report : window.reports) {
      if (in_time && report.window != window.window)
        continue;
      const auto first_step = std::min(report.first_step, messages::max_counter);
      const auto end_step = std::min(first_step + report.training.steps, messages::max_counter);
      said.push_back({.report = &report, .end_step = end_step, .due_step = due(first_step)});
    }
    if (!said.empty())
      break;
  }
  agreed_steps result;
  if (said.empty())
    return result;
  const auto finals = std::ranges::count_if(said, [](const said_steps& one) { return one.report->final; });
  result.last = 2 * finals > std::ssize(said);
  const auto number = std::min(window.window, messages::max_counter / window_steps); // the window's steps do not wrap
  const auto begin = (std::max<std::uint64_t>(number, 1) - 1) * window_steps;
  result.due_step = most_said(said, due(begin));
  for (const auto& [report, end_step, due_step] : said) {
    if (due_step == result.due_step)
      result.end_step = std::max(result.end_step, end_step);
    if (distance(due_step, result.due_step) > windows_off_most * window_steps)
      result.doubted.push_back(
          {.rank = report->rank,
           .host = report->host,
           .reason = fmt::format("it says that window {} went from step {} to {}, by which a decision would be due at "
                                 "step {}; the others' is due at step {}",
                                 window.window, report->first_step, end_step, due_step, result.due_step)});
  }
  return result;
}

} // namespace dynamix::policy
