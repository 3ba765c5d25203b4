#include "node/explanation.hpp"

#include "cluster/text_table.hpp"
#include "node/text.hpp"
#include "policy/planned_actions.hpp"
#include "policy/state.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace dynamix::node {
namespace {

using json = nlohmann::ordered_json;

const policy::state_field* find_field(const std::string& name) {
  const auto fields = policy::state_fields();
  const auto found = std::find_if(fields.begin(), fields.end(), [&](const auto& each) { return each.name == name; });
  return found == fields.end() ? nullptr : &*found;
}

/// Whether the field's group was not measured: then its 0 says nothing. A ledger of another version may lack the bit.
bool masked(const window_explanation& explanation, const actors::ledger_worker& row, const std::string& name) {
  const auto* field = find_field(name);
  if (field == nullptr)
    return false;
  const auto& names = explanation.start.state_fields;
  const auto bit = std::find(names.begin(), names.end(), std::string(field->group) + "_valid");
  const auto at = static_cast<std::size_t>(bit - names.begin());
  return bit != names.end() && at < row.state.size() && row.state[at] == 0;
}

std::string signed_text(std::int32_t number) {
  return (number > 0 ? "+" : "") + std::to_string(number);
}

/// "+25", or "118 % newest" where the policy votes for a share of its plan.
std::string action_text(const window_explanation& explanation, std::size_t action) {
  static constexpr const char* words[policy::beliefs] = {"average", "newest", "cautious"};
  const auto& actions = explanation.start.actions;
  const auto& scales = explanation.start.scales;
  if (explanation.start.policy == "ppo" && action < scales.size() * policy::beliefs) {
    const auto planned = policy::to_planned_action(action, scales);
    return std::to_string(planned.scale) + " % " + words[static_cast<std::size_t>(planned.how)];
  }
  return action < actions.size() ? signed_text(actions[action]) : "action " + std::to_string(action);
}

/// The terms that the total is made of, which may be of either kind (policy/reward.hpp).
std::string reward_text(const policy::reward_terms& reward) {
  const double paper = reward.accuracy + reward.gain - reward.time - reward.batch - reward.noise;
  if (reward.total == reward.progress && std::abs(reward.total - paper) > 1e-9)
    return fixed(reward.total, 3) + " = log2 of its goodput over the best that was to be had, " +
           percent(std::exp2(reward.total), 1);
  return fixed(reward.total, 3) + " = accuracy " + fixed(reward.accuracy, 3) + " + gain " + fixed(reward.gain, 3) +
         " - time " + fixed(reward.time, 3) + " - batch " + fixed(reward.batch, 3) + " - noise " +
         fixed(reward.noise, 3);
}

std::string state_text(const window_explanation& explanation, const actors::ledger_worker& row) {
  if (row.state.empty())
    return "  It saw no state: the policy " + explanation.start.policy + " uses none.\n";
  std::vector<std::vector<std::string>> rows = {{"field", "value", "", "normalisation"}};
  for (std::size_t i = 0; i < row.state.size(); ++i) {
    const auto& names = explanation.start.state_fields;
    const std::string name = i < names.size() ? names[i] : "field " + std::to_string(i);
    const auto* field = find_field(name);
    rows.push_back({name, fixed(row.state[i], 3), masked(explanation, row, name) ? "masked" : "",
                    field == nullptr ? "" : std::string(field->normalisation)});
  }
  return "  What the policy saw:\n" + cluster::text_table(rows, 4);
}

/// What it wanted where something else was decided: the guard stepped in, or it only watches.
std::string proposal_text(const actors::ledger_worker& row) {
  if (!row.intervention.empty())
    return "  The guard stepped in (" + printable(row.intervention) + "); proposed was " +
           std::to_string(row.proposed_batch) + ".\n";
  if (row.proposed_batch != 0 && row.proposed_batch != row.decided_batch)
    return "  It wanted " + std::to_string(row.proposed_batch) + ", and in shadow mode nothing is changed.\n";
  return "";
}

std::string choice_text(const window_explanation& explanation, const actors::ledger_worker& row) {
  if (row.action < 0 && row.probabilities.empty())
    return "  The policy " + explanation.start.policy + " chooses no action.";
  const auto chosen = static_cast<std::size_t>(row.action);
  std::string text;
  if (row.action < 0) {
    text = "  The action that it chose was not taken.";
  } else {
    text = "  It chose " + action_text(explanation, chosen);
    if (chosen < row.probabilities.size())
      text += " with probability " + fixed(row.probabilities[chosen], 2);
    text += ", expecting a return of " + fixed(row.value, 3) + ".";
  }
  if (!row.probabilities.empty()) {
    text += " Probabilities:";
    for (std::size_t i = 0; i < row.probabilities.size(); ++i)
      text += (i == 0 ? " " : ", ") + action_text(explanation, i) + " " + fixed(row.probabilities[i], 2);
    text += ".";
  }
  return text;
}

std::string worker_text(const window_explanation& explanation, const worker_explanation& worker) {
  const auto& row = worker.row;
  std::string text = row.report.host + " (rank " + std::to_string(row.report.rank) + ")\n";
  if (row.stale)
    text +=
        "  Its report of this window was late; that of window " + std::to_string(row.report.window) + " stood in.\n";
  text +=
      "  Batch " + std::to_string(row.report.batch) + " was in force, and earned " + reward_text(row.reward) + ".\n";
  if (!explanation.window.decided)
    return text + "  Nothing was decided: training ended with this window.\n";
  text += state_text(explanation, row) + choice_text(explanation, row) + "\n" + proposal_text(row);
  text += "  Batch " + std::to_string(row.assigned_batch) + " -> " + std::to_string(row.decided_batch) +
          (row.reason.empty() ? "." : ": " + printable(row.reason)) + "\n";
  if (!worker.effect)
    return text +
           "  It never came into force in a recorded window: a newer decision replaced it, or training ended first.\n";
  return text + "  It came into force in window " + std::to_string(worker.effect->window) + ", which earned " +
         reward_text(worker.effect->reward) + ".\n";
}

json to_object(const policy::reward_terms& reward) {
  return {{"total", reward.total}, {"accuracy", reward.accuracy}, {"gain", reward.gain},        {"time", reward.time},
          {"batch", reward.batch}, {"noise", reward.noise},       {"progress", reward.progress}};
}

/// What came of the decision `key` for `rank`, looking from row `from` to the end of the arbitrator's life.
std::optional<decision_effect> find_effect(const std::vector<actors::ledger_row>& rows, std::size_t from,
                                           messages::decision_key key, std::uint32_t rank) {
  for (std::size_t i = from + 1; i < rows.size() && !std::holds_alternative<actors::ledger_start>(rows[i].entry); ++i)
    if (const auto* window = std::get_if<actors::ledger_window>(&rows[i].entry))
      for (const auto& worker : window->workers)
        if (worker.report.rank == rank && worker.report.decision == key)
          return decision_effect{worker.report.window, worker.reward};
  return std::nullopt;
}

} // namespace

window_explanation explain(const std::vector<actors::ledger_row>& rows, std::uint64_t window, const std::string& worker,
                           std::string& error) {
  window_explanation found;
  actors::ledger_start start;
  std::optional<std::size_t> place;
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (const auto* begun = std::get_if<actors::ledger_start>(&rows[i].entry))
      start = *begun;
    const auto* row = std::get_if<actors::ledger_window>(&rows[i].entry);
    if (row == nullptr)
      continue;
    first = first == 0 ? row->key.window : std::min(first, row->key.window);
    last = std::max(last, row->key.window);
    if (row->key.window == window) {
      place = i;
      found = {start, *row, rows[i].at_seconds, {}};
    }
  }
  error.clear();
  if (!place) {
    error = last == 0 ? "the ledger holds no window yet"
                      : "the ledger holds no window " + std::to_string(window) + "; it has windows in [" +
                            std::to_string(first) + ", " + std::to_string(last) + "]";
    return found;
  }
  std::string names;
  for (const auto& row : found.window.workers) {
    names += (names.empty() ? "" : ", ") + row.report.host;
    if (worker.empty() || row.report.host == worker)
      found.workers.push_back({row, find_effect(rows, *place, found.window.key, row.report.rank)});
  }
  if (found.workers.empty())
    error = "window " + std::to_string(window) + " has no worker \"" + worker + "\"; it has " + names;
  return found;
}

std::string to_text(const window_explanation& explanation) {
  const auto& window = explanation.window;
  std::string text = "Window " + std::to_string(window.key.window) + " of cluster " + explanation.start.cluster + ", " +
                     (window.decided ? "decided by " : "seen by ") + explanation.start.policy + " version " +
                     std::to_string(window.policy_version) + " (term " + std::to_string(window.key.term) +
                     ", generation " + std::to_string(window.generation) + ") at " + fixed(explanation.at_seconds, 1) +
                     " s. Its reports came within " + fixed(1e3 * window.gather_seconds, 1) + " ms, deciding took " +
                     fixed(1e3 * window.decide_seconds, 1) + " ms.\n";
  for (const auto& worker : explanation.workers)
    text += "\n" + worker_text(explanation, worker);
  return text;
}

std::string to_json(const window_explanation& explanation) {
  json array = json::array();
  for (const auto& worker : explanation.workers) {
    const auto& row = worker.row;
    json object = {{"window", explanation.window.key.window},
                   {"term", explanation.window.key.term},
                   {"policy", explanation.start.policy},
                   {"policy_version", explanation.window.policy_version},
                   {"decided", explanation.window.decided},
                   {"host", row.report.host},
                   {"rank", row.report.rank},
                   {"stale", row.stale},
                   {"batch", row.report.batch},
                   {"assigned_batch", row.assigned_batch},
                   {"proposed_batch", row.proposed_batch == 0 ? row.decided_batch : row.proposed_batch},
                   {"decided_batch", row.decided_batch},
                   {"intervention", row.intervention},
                   {"reward", to_object(row.reward)},
                   {"value", row.value},
                   {"reason", row.reason}};
    object["action"] =
        row.action < 0 ? json(nullptr) : json(action_text(explanation, static_cast<std::size_t>(row.action)));
    object["probabilities"] = json::object();
    for (std::size_t i = 0; i < row.probabilities.size(); ++i)
      object["probabilities"][action_text(explanation, i)] = row.probabilities[i];
    object["state"] = json::array();
    for (std::size_t i = 0; i < row.state.size() && i < explanation.start.state_fields.size(); ++i) {
      const auto& name = explanation.start.state_fields[i];
      object["state"].push_back({{"field", name}, {"value", row.state[i]}, {"masked", masked(explanation, row, name)}});
    }
    object["effect"] = nullptr;
    if (worker.effect)
      object["effect"] = {{"window", worker.effect->window}, {"reward", to_object(worker.effect->reward)}};
    array.push_back(std::move(object));
  }
  return array.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

} // namespace dynamix::node
