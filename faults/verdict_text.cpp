#include "cluster/text_table.hpp"
#include "faults/verdict.hpp"
#include "ledger/json_values.hpp"
#include "ledger/text.hpp"

#include <nlohmann/json.hpp>
#include <spdlog/fmt/fmt.h>

namespace dynamix::faults {
namespace {

using json = nlohmann::ordered_json;

std::string seconds_text(const storage::percentiles& of) {
  return of.count == 0 ? "-" : fmt::format("{:.2f} / {:.2f} / {:.2f}", of.p50, of.p99, of.max);
}

std::vector<std::string> cells(const std::string& name, const kind_verdict& of) {
  return {name,
          std::to_string(of.injected),
          std::to_string(of.bit),
          std::to_string(of.recovered),
          of.steps_lost ? std::to_string(*of.steps_lost) : "-",
          seconds_text(of.detection),
          seconds_text(of.resumption),
          seconds_text(of.recovery)};
}

json spread_json(const storage::percentiles& of) {
  return of.count == 0 ? json(nullptr) : json{{"count", of.count}, {"p50", of.p50}, {"p99", of.p99}, {"max", of.max}};
}

json kind_json(const kind_verdict& of) {
  return {{"injected", of.injected},
          {"bit", of.bit},
          {"recovered", of.recovered},
          {"steps_lost", ledger::or_null(of.steps_lost)},
          {"detection_seconds", spread_json(of.detection)},
          {"resumption_seconds", spread_json(of.resumption)},
          {"recovery_seconds", spread_json(of.recovery)}};
}

/// Of a run whose last window was not recorded nothing is known.
std::string samples_text(const run_figures& run) {
  if (!run.samples_dropped)
    return "samples dropped: unknown";
  return fmt::format("{} samples dropped, {} trained twice", *run.samples_dropped, run.samples_repeated.value_or(0));
}

std::string losses_text(const run_figures& run) {
  std::string each;
  for (const auto& [of, count] : run.losses)
    each += fmt::format("{}{} {}", each.empty() ? "" : ", ", of, count);
  return fmt::format("{} decisions, on their way when what ended was: {}", run.unapplied_by_loss, each);
}

} // namespace

std::string to_text(const verdict& judged) {
  std::vector<std::vector<std::string>> rows = {
      {"fault", "injected", "bit", "recovered", "steps lost", "detected s p50/p99/max", "resumed s", "recovered s"}};
  for (const auto& kind : judged.kinds)
    rows.push_back(cells(std::string(to_string(kind.kind)), kind));
  if (judged.kinds.size() != 1)
    rows.push_back(cells("all", judged.all));
  const auto& run = judged.figures;
  std::string text = cluster::text_table(rows);
  text += fmt::format("decisions: {}, {} applied, {} lost, {} twice, {} stale refused; terms with two leaders: {}\n",
                      ledger::decisions_made_text(run.decisions_made, run.decisions_applied), run.decisions_applied,
                      run.decisions_lost, run.decisions_duplicated + judged.decided_twice, run.stale_refused,
                      judged.two_leaders);
  const auto& history = judged.history;
  text += fmt::format("history: {} decisions, {} reports of what was in force, {} decisions in no row: {}\n",
                      history.decisions, history.reads, history.unwritten,
                      history.violation.empty() ? "linearisable" : "NOT LINEARISABLE");
  if (run.unapplied_by_loss > 0)
    text += "unapplied by a loss: " + losses_text(run) + "\n";
  const auto lost = judged.all.steps_lost ? fmt::format("{} steps lost, ", *judged.all.steps_lost) : "";
  text += fmt::format("training: {} steps, {} samples, {}{}; final accuracy {:.2f} %", run.steps, run.samples, lost,
                      samples_text(run), run.final_accuracy * 100);
  text += run.unharmed_accuracy < 0 ? "\n" : fmt::format(", without faults {:.2f} %\n", run.unharmed_accuracy * 100);
  if (!run.left.empty())
    text += fmt::format("hosts left: {}\n", fmt::join(run.left, ", "));
  for (const auto& process : run.growth)
    text += fmt::format("{} lived through {} faults: memory {:+.1f} MiB, descriptors {:+}\n", process.host,
                        process.faults, process.memory_mib, process.descriptors);
  for (const auto& each : judged.without_effect)
    text += "had no effect: " + each + "\n";
  for (const auto& reason : judged.reasons)
    text += "not clean: " + reason + "\n";
  if (run.interrupted)
    return text + (judged.reasons.empty() ? "verdict: INTERRUPTED, clean so far\n"
                                          : "verdict: INTERRUPTED, NOT CLEAN so far\n");
  return text + (judged.clean ? "verdict: clean\n" : "verdict: NOT CLEAN\n");
}

std::string to_json(const verdict& judged, const fault_plan& plan, const std::vector<fault_record>& records) {
  const auto& run = judged.figures;
  json object = {{"plan", plan.name}, {"seed", plan.seed}, {"clean", judged.clean}, {"interrupted", run.interrupted}};
  object["reasons"] = judged.reasons;
  object["all"] = kind_json(judged.all);
  object["kinds"] = json::object();
  for (const auto& kind : judged.kinds)
    object["kinds"][std::string(to_string(kind.kind))] = kind_json(kind);
  object["decisions"] = {{"made", run.decisions_made},
                         {"applied", run.decisions_applied},
                         {"lost", run.decisions_lost},
                         {"duplicated", run.decisions_duplicated},
                         {"stale_refused", run.stale_refused},
                         {"decided_twice", judged.decided_twice},
                         {"old_terms", judged.old_terms},
                         {"terms_with_two_leaders", judged.two_leaders},
                         {"unapplied_by_loss", run.unapplied_by_loss}};
  object["decisions"]["unapplied_by_loss_of"] = run.losses;
  object["history"] = {{"decisions", judged.history.decisions},
                       {"reads", judged.history.reads},
                       {"unwritten", judged.history.unwritten},
                       {"violation", judged.history.violation}};
  object["hosts_left"] = run.left;
  object["samples_dropped"] = ledger::or_null(run.samples_dropped);
  object["samples_repeated"] = ledger::or_null(run.samples_repeated);
  object["final_accuracy"] = run.final_accuracy;
  object["unharmed_accuracy"] = ledger::or_null(run.unharmed_accuracy >= 0, run.unharmed_accuracy);
  object["seconds"] = run.seconds;
  object["unharmed_seconds"] = ledger::or_null(run.unharmed_seconds >= 0, run.unharmed_seconds);
  object["processes"] = json::array();
  for (const auto& process : run.growth)
    object["processes"].push_back({{"host", process.host},
                                   {"faults", process.faults},
                                   {"memory_growth_mib", process.memory_mib},
                                   {"descriptor_growth", process.descriptors}});
  object["injected"] = json::array();
  for (const auto& record : records)
    object["injected"].push_back(
        {{"number", record.plan.number},
         {"kind", to_string(record.plan.kind)},
         {"hosts", record.plan.hosts},
         {"began_seconds", record.began_seconds},
         {"ended_seconds", ledger::or_null(record.ended_seconds >= 0, record.ended_seconds)},
         {"detected_seconds", ledger::or_null(record.detected_seconds >= 0, record.detected_seconds)},
         {"resumed_seconds", ledger::or_null(record.resumed_seconds >= 0, record.resumed_seconds)},
         {"recovered_seconds", ledger::or_null(record.recovered_seconds >= 0, record.recovered_seconds)},
         {"steps_lost", ledger::or_null(plan.script.empty(), record.steps_lost)},
         {"bit", record.bit},
         {"evidence", record.evidence}});
  return object.dump(2, ' ', false, json::error_handler_t::replace);
}

} // namespace dynamix::faults
