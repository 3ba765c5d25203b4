#include "ledger/explanation.hpp"

#include "ledger/text.hpp"
#include "ledger/worker_course.hpp"
#include "policy/planned_actions.hpp"
#include "policy/state.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace dynamix::ledger {
namespace {

/// Windows whose choices of the exchange are shown, the newest ones.
constexpr std::size_t choices_max = 8;

/// Follows what each generation tells of its exchange.
void note_exchange(const ledger::entry& entry, std::vector<std::string>& told) {
  if (std::holds_alternative<ledger::generation>(entry))
    told.clear();
  const auto* event = std::get_if<ledger::event>(&entry);
  if (event == nullptr || event->event != event_kind::exchange)
    return;
  if (told.size() == choices_max)
    told.erase(told.begin());
  told.push_back(event->text);
}

/// The windows that the arbitrator saw after row `from`, to the end of its life.
template <class Visit>
void for_each_later_window(const std::vector<ledger::row>& rows, std::size_t from, Visit visit) {
  for (std::size_t i = from + 1; i < rows.size() && !std::holds_alternative<ledger::start>(rows[i].entry); ++i)
    if (const auto* window = std::get_if<ledger::window>(&rows[i].entry))
      if (visit(*window))
        return;
}

/// What came of the decision `key` for `rank`.
std::optional<decision_effect> find_effect(const std::vector<ledger::row>& rows, std::size_t from,
                                           messages::decision_key key, std::uint32_t rank) {
  std::optional<decision_effect> found;
  for_each_later_window(rows, from, [&](const ledger::window& window) {
    for (const auto& worker : window.workers)
      if (worker.report.rank == rank && worker.report.decision == key) {
        found = decision_effect{worker.report.window, worker.reward, {}};
        if (const auto& training = worker.report.training; timed_steps(training) > 0)
          found->compute_seconds = training.compute_seconds;
      }
    return found.has_value();
  });
  return found;
}

std::optional<window_effect> find_effect(const std::vector<ledger::row>& rows, std::size_t from,
                                         messages::decision_key key) {
  std::optional<window_effect> found;
  for_each_later_window(rows, from, [&](const ledger::window& window) {
    const auto fresh = [&](const ledger::worker& worker) { return !worker.stale && worker.report.decision == key; };
    if (window.workers.empty() || !std::ranges::all_of(window.workers, fresh))
      return false;
    found = window_effect{.window = window.key.window};
    for (const auto& worker : window.workers) {
      found->total += worker.report.batch;
      found->step_seconds = std::max(found->step_seconds, worker.report.training.iteration_seconds);
      found->mean_progress += worker.reward.progress / static_cast<double>(window.workers.size());
    }
    return true;
  });
  return found;
}

} // namespace

std::string action_text(const window_explanation& explanation, std::size_t action) {
  static constexpr const char* words[policy::beliefs] = {"average", "newest", "cautious"};
  const auto& actions = explanation.start.actions;
  const auto& scales = explanation.start.scales;
  if (explanation.start.policy == "ppo" && action < scales.size() * policy::beliefs) {
    const auto planned = policy::to_planned_action(action, scales);
    return std::to_string(planned.scale) + " % " + words[static_cast<std::size_t>(planned.how)];
  }
  if (action >= actions.size())
    return "action " + std::to_string(action);
  return (actions[action] > 0 ? "+" : "") + std::to_string(actions[action]);
}

bool masked(const window_explanation& explanation, const ledger::worker& row, const std::string& name) {
  const auto* field = policy::find_state_field(name);
  if (field == nullptr)
    return false;
  const auto& names = explanation.start.state_fields;
  const auto bit = std::find(names.begin(), names.end(), std::string(field->group) + "_valid");
  const auto at = static_cast<std::size_t>(bit - names.begin());
  return bit != names.end() && at < row.state.size() && row.state[at] == 0;
}

namespace {

/// By what a host measured it; empty where it did not, or does not say.
std::string means(messages::signal_source source, const char* unprivileged) {
  if (source == messages::signal_source::ebpf)
    return ", by eBPF";
  return source == messages::signal_source::unprivileged ? std::string(", by ") + unprivileged : "";
}

} // namespace

std::string source_of(const std::string& name, const messages::window_report& report) {
  static constexpr std::array<std::pair<std::string_view, const char*>, 7> sources = {
      {{"training", "its training loop"},
       {"gradient", "its gradients"},
       {"batch", "decisions"},
       {"global", "all reports"},
       {"noise", "all gradients"},
       {"plan", "measured step times"},
       {"validity", "what was measured"}}};
  const auto* field = policy::find_state_field(name);
  if (field == nullptr)
    return {};
  if (field->group == "network")
    return "its host's sockets" + means(report.network.source, "TCP_INFO");
  if (field->group == "system")
    return "its host's kernel" + means(report.system.source, "procfs");
  const auto found = std::ranges::find(sources, field->group, [](const auto& each) { return each.first; });
  return found == sources.end() ? std::string(field->group) : found->second;
}

window_explanation explain(const std::vector<ledger::row>& rows, std::uint64_t window, const std::string& worker,
                           std::string& error) {
  window_explanation found;
  ledger::start start;
  std::optional<std::size_t> place;
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::vector<std::string> exchange;
  equal_batches equal;
  const bool newest = window == 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    note_exchange(rows[i].entry, exchange);
    if (const auto* begun = std::get_if<ledger::start>(&rows[i].entry))
      equal.begin(start = *begun);
    const auto* row = std::get_if<ledger::window>(&rows[i].entry);
    if (row == nullptr)
      continue;
    first = first == 0 ? row->key.window : std::min(first, row->key.window);
    last = std::max(last, row->key.window);
    equal.add(*row);
    if (newest ? row->decided || !found.window.decided || !place : row->key.window == window) {
      place = i;
      found = {start, *row, rows[i].at_seconds, {}, {}, equal.newest(), exchange};
    }
  }
  error.clear();
  if (!place) {
    error = last == 0 ? "the ledger holds no window yet"
                      : "the ledger holds no window " + std::to_string(window) + "; it has windows in [" +
                            std::to_string(first) + ", " + std::to_string(last) + "]";
    return found;
  }
  for (const auto& row : found.window.workers)
    if (worker.empty() || row.report.host == worker)
      found.workers.push_back({row, find_effect(rows, *place, found.window.key, row.report.rank)});
  if (found.window.decided)
    found.effect = find_effect(rows, *place, found.window.key);
  if (found.workers.empty())
    error = "window " + std::to_string(found.window.key.window) + " has no worker \"" + worker + "\"; it has " +
            listed(found.window.workers, [](const auto& row) { return row.report.host; });
  return found;
}

} // namespace dynamix::ledger
