#include "ledger/explanation.hpp"
#include "ledger/json_values.hpp"
#include "ledger/worker_course.hpp"

#include <nlohmann/json.hpp>

namespace dynamix::ledger {
namespace {

using json = nlohmann::ordered_json;

json to_object(const policy::reward_terms& reward) {
  return {{"total", reward.total}, {"accuracy", reward.accuracy}, {"gain", reward.gain},        {"time", reward.time},
          {"batch", reward.batch}, {"noise", reward.noise},       {"progress", reward.progress}};
}

json to_object(const policy::promised_step& step) {
  if (step.total == 0)
    return nullptr;
  return {{"total", step.total}, {"slowest_seconds", step.slowest_seconds}, {"goodput", step.goodput}};
}

json guard_object(const ledger::window& window, const ledger::worker& row) {
  if (window.guard.empty())
    return nullptr;
  return {{"view", window.guard}, {"stepped_in", !row.intervention.empty()}, {"intervention", row.intervention}};
}

/// Of the whole window; null where nothing was measured.
json predicted_object(const ledger::window& window, const ledger::worker& row) {
  const auto& predicted = window.predicted;
  if (predicted.decided.total == 0)
    return nullptr;
  return {{"compute_seconds", or_null(row.predicted_seconds >= 0, row.predicted_seconds)},
          {"planned_batch", or_null(row.planned_batch > 0, row.planned_batch)},
          {"exchange_seconds", predicted.exchange_seconds},
          {"noise_scale", or_null(predicted.noise_scale >= 0, predicted.noise_scale)},
          {"noise_error", or_null(predicted.noise_error > 0, predicted.noise_error)},
          {"assigned", to_object(predicted.assigned)},
          {"decided", to_object(predicted.decided)},
          {"planned", to_object(predicted.planned)}};
}

json effect_object(const window_explanation& explanation, const worker_explanation& worker) {
  if (!worker.effect)
    return nullptr;
  json object = {{"window", worker.effect->window},
                 {"reward", to_object(worker.effect->reward)},
                 {"compute_seconds", or_null(worker.effect->compute_seconds)},
                 {"cluster", nullptr}};
  if (const auto& all = explanation.effect)
    object["cluster"] = {{"window", all->window},
                         {"total", all->total},
                         {"step_seconds", or_null(all->step_seconds > 0, all->step_seconds)},
                         {"mean_progress", all->mean_progress}};
  return object;
}

json state_array(const window_explanation& explanation, const ledger::worker& row) {
  auto array = json::array();
  for (std::size_t i = 0; i < row.state.size() && i < explanation.start.state_fields.size(); ++i) {
    const auto& name = explanation.start.state_fields[i];
    array.push_back({{"field", name},
                     {"value", row.state[i]},
                     {"masked", masked(explanation, row, name)},
                     {"from", source_of(name, row.report)}});
  }
  return array;
}

} // namespace

std::string to_json(const window_explanation& explanation) {
  json array = json::array();
  const auto& window = explanation.window;
  for (const auto& worker : explanation.workers) {
    const auto& row = worker.row;
    json object = {{"window", window.key.window},
                   {"term", window.key.term},
                   {"policy", explanation.start.policy},
                   {"policy_version", window.policy_version},
                   {"decided", window.decided},
                   {"host", row.report.host},
                   {"rank", row.report.rank},
                   {"stale", row.stale},
                   {"batch", row.report.batch},
                   {"highest_batch", or_null(row.report.highest_batch > 0, row.report.highest_batch)},
                   {"assigned_batch", row.assigned_batch},
                   {"proposed_batch", row.proposed_batch == 0 ? row.decided_batch : row.proposed_batch},
                   {"decided_batch", row.decided_batch},
                   {"intervention", row.intervention},
                   {"reward", to_object(row.reward)},
                   {"value", row.value},
                   {"reason", row.reason}};
    const auto& balance = row.report.balance;
    object["balance"] = {{"moves", balance.moves},
                         {"moved_samples", balance.moved_samples},
                         {"changes", balance.changes},
                         {"newest_change", or_null(balance.changes > 0, balance.newest_change)},
                         {"shared_cpus", balance.shared_cpus},
                         {"shared_demand", balance.shared_demand}};
    object["action"] =
        row.action < 0 ? json(nullptr) : json(action_text(explanation, static_cast<std::size_t>(row.action)));
    object["probabilities"] = json::object();
    for (std::size_t i = 0; i < row.probabilities.size(); ++i)
      object["probabilities"][action_text(explanation, i)] = row.probabilities[i];
    object["state"] = state_array(explanation, row);
    object["time"] = time_object(row.time);
    object["guard"] = guard_object(window, row);
    object["predicted"] = predicted_object(window, row);
    object["effect"] = effect_object(explanation, worker);
    object["exchange"] = explanation.exchange;
    array.push_back(std::move(object));
  }
  return array.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

} // namespace dynamix::ledger
