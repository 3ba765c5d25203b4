#include "cluster/text_table.hpp"
#include "ledger/explanation.hpp"
#include "ledger/text.hpp"
#include "ledger/worker_course.hpp"
#include "messages/loss.hpp"
#include "policy/state.hpp"

#include <algorithm>
#include <cmath>

namespace dynamix::ledger {
namespace {

std::string milliseconds(double seconds) {
  return fixed(1e3 * seconds, 1) + " ms";
}

std::string rounded(double number) {
  return grouped(static_cast<std::uint64_t>(std::llround(std::max(number, 0.0))));
}

/// With one standard error to either side, where it is known.
std::string noise_text(const policy::window_prediction& predicted) {
  const double factor = std::exp(predicted.noise_error);
  return rounded(predicted.noise_scale) +
         (predicted.noise_error > 0
              ? " (" + rounded(predicted.noise_scale / factor) + " to " + rounded(predicted.noise_scale * factor) + ")"
              : "");
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

std::string promise_text(const policy::promised_step& step, double exchange_seconds) {
  const double seconds = step.slowest_seconds + exchange_seconds;
  return rounded(step.goodput) + " useful samples/s (" + grouped(step.total) + " samples per step of " +
         milliseconds(seconds) + ", " + rounded(seconds > 0 ? static_cast<double>(step.total) / seconds : 0) +
         " samples/s)";
}

bool nobody_decides(const window_explanation& explanation) {
  return explanation.start.policy == "stigmergic";
}

/// What was expected and what came of it, for all workers together.
std::string prediction_text(const window_explanation& explanation) {
  const auto& window = explanation.window;
  const auto& predicted = window.predicted;
  if (!window.decided || nobody_decides(explanation))
    return "";
  std::string text;
  if (predicted.decided.total > 0) {
    const double exchange = predicted.exchange_seconds;
    text += "Predicted: as decided " + promise_text(predicted.decided, exchange) + "; had nothing changed " +
            promise_text(predicted.assigned, exchange);
    // The plan looks at some global batches within reach of those that have run, and may miss the best by a little.
    const bool better = predicted.planned.goodput > std::max(predicted.decided.goodput, predicted.assigned.goodput);
    if (predicted.planned.total > 0)
      text += better ? "; at best " + promise_text(predicted.planned, exchange) : "; the plan knows of nothing better";
    text += ". Of a step the exchange takes " + milliseconds(exchange) +
            ", waits for a CPU included (mean of recent windows). " +
            (predicted.noise_scale < 0 ? "The noise scale is not measured yet, so all samples count as useful.\n"
                                       : "Noise scale: " + noise_text(predicted) + " samples.\n");
  } else {
    text += "Predicted: nothing, for no worker had been measured.\n";
  }
  if (!explanation.effect)
    return text + "Measured: nothing, for no recorded window ran under it with all workers.\n";
  const auto& effect = *explanation.effect;
  return text + "Measured: window " + std::to_string(effect.window) + " ran under it, " + grouped(effect.total) +
         " samples per step" +
         (effect.step_seconds > 0
              ? " of " + milliseconds(effect.step_seconds) + ", " +
                    rounded(static_cast<double>(effect.total) / effect.step_seconds) + " samples/s; "
              : ", whose time is not known; ") +
         percent(std::exp2(effect.mean_progress), 1) + " of the best goodput that was to be had.\n";
}

std::string exchange_text(const window_explanation& explanation) {
  std::string text;
  for (const auto& told : explanation.exchange)
    text += "Exchange: " + printable(told) + ".\n";
  return text;
}

std::string guard_text(const window_explanation& explanation) {
  const auto& window = explanation.window;
  if (!window.decided || window.guard.empty())
    return "";
  const auto stepped_in =
      std::ranges::find_if(window.workers, [](const auto& row) { return !row.intervention.empty(); });
  return "Guard: " + printable(window.guard) +
         (stepped_in == window.workers.end() ? ". It let the choices stand.\n"
                                             : ". It overrode them: " + printable(stepped_in->intervention) + ".\n");
}

/// Where its step's time went: by what held it up, or as it was reported where that is not known.
std::string step_text(const ledger::worker& row) {
  const auto& training = row.report.training;
  const auto& time = row.time;
  if (timed_steps(training) == 0)
    return "how long a step took is not known";
  const auto all = "a step of " + milliseconds(training.iteration_seconds) + ": ";
  if (is_known(time))
    return all + milliseconds(time.compute_seconds) + " computing, " + milliseconds(time.cpu_wait_seconds) +
           " without a CPU, " + milliseconds(time.network_seconds) + " network, " + milliseconds(time.barrier_seconds) +
           " waiting for others, " + milliseconds(time.data_seconds) + " data, " + milliseconds(time.other_seconds) +
           " other";
  return all + milliseconds(training.compute_seconds) + " computing, " + milliseconds(training.exchange_seconds) +
         " in the exchange, " + milliseconds(training.data_seconds) + " data";
}

/// ", accuracy 50.0 %, loss 0.693"; nothing of what a script does not tell.
std::string learning_text(const messages::training_statistics& training) {
  const auto loss = messages::received_loss(training.loss);
  return (training.accuracy > 0 ? ", accuracy " + percent(training.accuracy, 1) : "") +
         (std::isnan(loss) ? "" : ", loss " + fixed(loss, 3));
}

/// What the worker reported, in its own units.
std::string report_text(const ledger::worker& row) {
  const auto& report = row.report;
  const auto& training = report.training;
  std::string text = "  It reported " + std::to_string(training.steps) + " steps with " + grouped(training.samples) +
                     " samples" + learning_text(training) + "; " + step_text(row) + ".\n";
  text += "  Network: " +
          (report.network.valid
               ? fixed(report.network.throughput_bytes_per_second / 1e6, 2) + " MB/s, round trip " +
                     fixed(1e3 * report.network.rtt_seconds, 3) + " ms, " + grouped(report.network.retransmissions) +
                     (report.network.retransmissions == 1 ? " segment" : " segments") + " sent again"
               : std::string("not measured")) +
          ". Machine: " +
          (report.system.valid ? fixed(report.system.cpu_time_ratio, 2) + " cores in use, " +
                                     fixed(report.system.run_queue_wait_ratio, 2) + " waited for, " +
                                     percent(report.system.memory_ratio, 1) + " of memory"
                               : std::string("not measured")) +
          ".\n";
  return text;
}

std::string change_text(const messages::balance_statistics& balance) {
  return "a step then took " + fixed(balance.newest_change, 2) + " times as long as before";
}

/// Who moved work to whom within the window, and whose speed had changed; nothing where neither happened.
std::string moves_text(const window_explanation& explanation) {
  std::string taken;
  std::string given;
  std::string changed;
  const auto moves = policy::moves_in(explanation.window);
  for (const auto& row : explanation.window.workers) {
    const auto& balance = row.report.balance;
    const auto& host = row.report.host;
    const auto samples = rounded(std::abs(balance.moved_samples));
    if (samples != "0") {
      auto& list = balance.moved_samples > 0 ? taken : given;
      list += (list.empty() ? "" : ", ") + host + " (" + samples + ")";
    }
    if (balance.changes > 0)
      changed += (changed.empty() ? "" : "; ") + host + " found its speed changed: " + change_text(balance);
  }
  std::string text;
  if (moves > 0)
    text = "The workers moved samples after " + grouped(moves) + (moves == 1 ? " step" : " steps") +
           (taken.empty() && given.empty() ? "" : ": ") + (taken.empty() ? "" : "more samples for " + taken) +
           (taken.empty() || given.empty() ? "" : ", ") + (given.empty() ? "" : "fewer for " + given) + ".\n";
  return changed.empty() ? text : text + "Why: " + changed + ".\n";
}

/// Whose samples only decisions changed; nothing where shares followed all paces, or were not to.
std::string sharing_text(const policy::judged_window& window) {
  std::string who;
  for (const auto& row : window.workers)
    if (const auto& balance = row.report.balance; balance.shared_cpus > 0)
      who += (who.empty() ? "" : ", ") + row.report.host + " (" + grouped(balance.shared_cpus) +
             (balance.shared_cpus == 1 ? " CPU, of which " : " CPUs, of which ") + fixed(balance.shared_demand, 1) +
             " would be busy)";
  return who.empty() ? ""
                     : "Shares cores with other workers, so that its share followed decisions alone: " + who + ".\n";
}

/// What that was for one worker.
std::string balance_text(const messages::balance_statistics& balance) {
  std::string text;
  if (balance.moves > 0)
    text = "  The workers moved samples after " + grouped(balance.moves) + (balance.moves == 1 ? " step" : " steps") +
           " of the window: it computed " + rounded(std::abs(balance.moved_samples)) + " samples " +
           (balance.moved_samples < 0 ? "less" : "more") +
           " than with the batch size that the window before ended with.\n";
  if (balance.changes > 0)
    text += "  It found its speed changed" + (balance.changes == 1 ? "" : " " + grouped(balance.changes) + " times") +
            ": " + change_text(balance) + ".\n";
  return text;
}

std::string state_text(const window_explanation& explanation, const ledger::worker& row) {
  if (row.state.empty())
    return "  It saw no state: the policy " + explanation.start.policy + " uses none.\n";
  std::vector<std::vector<std::string>> rows = {{"field", "value", "", "from", "normalisation"}};
  for (std::size_t i = 0; i < row.state.size(); ++i) {
    const auto& names = explanation.start.state_fields;
    const std::string name = i < names.size() ? names[i] : "field " + std::to_string(i);
    const auto* field = policy::find_state_field(name);
    rows.push_back({name, fixed(row.state[i], 3), masked(explanation, row, name) ? "masked" : "",
                    source_of(name, row.report), field == nullptr ? "" : std::string(field->normalisation)});
  }
  return "  What the policy saw:\n" + cluster::text_table(rows, 4);
}

/// What it wanted where something else was decided: the guard stepped in, or it only watches.
std::string proposal_text(const ledger::worker& row) {
  if (!row.intervention.empty())
    return "  The guard overrode the policy (" + printable(row.intervention) + "); proposed was " +
           std::to_string(row.proposed_batch) + ".\n";
  if (row.proposed_batch != 0 && row.proposed_batch != row.decided_batch)
    return "  It wanted " + std::to_string(row.proposed_batch) + ", and in shadow mode nothing is changed.\n";
  return "";
}

std::string choice_text(const window_explanation& explanation, const ledger::worker& row) {
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

/// Of one worker; without what the policy saw and its probabilities where those are not asked for.
std::string worker_text(const window_explanation& explanation, const worker_explanation& worker,
                        explanation_detail detail) {
  const auto& row = worker.row;
  std::string text = row.report.host + " (rank " + std::to_string(row.report.rank) + ")\n";
  if (row.stale)
    text +=
        "  Its report of this window was late; that of window " + std::to_string(row.report.window) + " stood in.\n";
  text += report_text(row) + balance_text(row.report.balance);
  text +=
      "  Batch " + std::to_string(row.report.batch) + " was in force, and earned " + reward_text(row.reward) + ".\n";
  if (row.report.highest_batch > 0)
    text += "  It takes at most " + std::to_string(row.report.highest_batch) + ", by its script or its memory.\n";
  if (!explanation.window.decided)
    return text + "  Nothing was decided: training ended with this window.\n";
  if (nobody_decides(explanation))
    return text + "  The workers choose at every step, by what all say of their paces; " +
           std::to_string(row.decided_batch) + " stood at the window's end.\n";
  if (detail == explanation_detail::all)
    text += state_text(explanation, row) + choice_text(explanation, row) + "\n";
  text += proposal_text(row);
  text += "  Batch " + std::to_string(row.assigned_batch) + " -> " + std::to_string(row.decided_batch) +
          (row.reason.empty() ? "." : ": " + printable(row.reason)) + "\n";
  if (row.predicted_seconds >= 0)
    text += "  Predicted: it computes that in " + milliseconds(row.predicted_seconds) + ", waits for a CPU included." +
            (row.planned_batch == 0
                 ? ""
                 : " The plan with the highest goodput gives it " + std::to_string(row.planned_batch) + ".") +
            "\n";
  if (!worker.effect)
    return text +
           "  It never came into force in a recorded window: a newer decision replaced it, or training ended first.\n";
  return text + "  It came into force in window " + std::to_string(worker.effect->window) + ", which earned " +
         reward_text(worker.effect->reward) + "." +
         (worker.effect->compute_seconds
              ? " Computing took " + milliseconds(*worker.effect->compute_seconds) + ", waits for a CPU included."
              : "") +
         "\n";
}

/// A row per worker: its batch size, the most that it takes where a script or its memory says so, and where its step
/// went.
std::string workers_text(const window_explanation& explanation) {
  const bool split = std::ranges::any_of(explanation.workers, [](const auto& each) { return is_known(each.row.time); });
  const bool limited =
      std::ranges::any_of(explanation.workers, [](const auto& each) { return each.row.report.highest_batch > 0; });
  std::vector<std::vector<std::string>> rows = {{"worker", "batch"}};
  if (limited)
    rows.front().emplace_back("limit");
  for (const auto* name : {"step ms", "computing"})
    rows.front().emplace_back(name);
  for (const auto* name : split ? std::vector<const char*>{"without a CPU", "network", "barrier", "data"}
                                : std::vector<const char*>{"exchange", "data"})
    rows.front().emplace_back(name);
  for (const auto& [row, effect] : explanation.workers) {
    const auto& training = row.report.training;
    const auto& time = row.time;
    const auto ms = [known = timed_steps(training) > 0](double seconds) {
      return known ? fixed(1e3 * seconds, 1) : "-";
    };
    rows.push_back({row.report.host, std::to_string(row.assigned_batch) + " -> " + std::to_string(row.decided_batch) +
                                         (row.intervention.empty() ? "" : " (guard)")});
    if (limited)
      rows.back().push_back(row.report.highest_batch == 0 ? "-" : std::to_string(row.report.highest_batch));
    rows.back().push_back(ms(training.iteration_seconds));
    rows.back().push_back(ms(split ? time.compute_seconds : training.compute_seconds));
    for (const double seconds :
         split ? std::vector{time.cpu_wait_seconds, time.network_seconds, time.barrier_seconds, time.data_seconds}
               : std::vector{training.exchange_seconds, training.data_seconds})
      rows.back().push_back(ms(seconds));
  }
  return cluster::text_table(rows, 2);
}

/// Why the batch sizes are as they are, in two sentences.
std::string sentences_text(const window_explanation& explanation) {
  const auto reason = because(explanation.gain);
  return reason.empty() ? "" : reason + ".\n" + headline(explanation.gain) + ".\n\n";
}

} // namespace

std::string to_text(const window_explanation& explanation, explanation_detail detail) {
  const auto& window = explanation.window;
  std::string text =
      sentences_text(explanation) + "Window " + std::to_string(window.key.window) + " of cluster " +
      explanation.start.cluster + ", " +
      (nobody_decides(explanation) ? "where workers share by their paces and nobody decides"
                                   : (window.decided ? "decided by " : "seen by ") + explanation.start.policy +
                                         " version " + std::to_string(window.policy_version)) +
      " (term " + std::to_string(window.key.term) + ", generation " + std::to_string(window.generation) + ") at " +
      fixed(explanation.at_seconds, 1) + " s. Its reports came within " + fixed(1e3 * window.gather_seconds, 1) +
      " ms, deciding took " + fixed(1e3 * window.decide_seconds, 1) + " ms.\n" + exchange_text(explanation) +
      guard_text(explanation) + moves_text(explanation) + sharing_text(explanation.window) +
      prediction_text(explanation);
  if (detail == explanation_detail::summary && explanation.workers.size() > 1)
    return text + "\n" + workers_text(explanation);
  for (const auto& worker : explanation.workers)
    text += "\n" + worker_text(explanation, worker, detail);
  return text;
}

} // namespace dynamix::ledger
