#include "faults/verdict.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <fmt/core.h>
#include <set>

namespace dynamix::faults {
namespace {

constexpr double faults_of_growth = 100;
constexpr std::uint64_t faults_to_judge_growth = 10;

/// Seconds of one measure over records.
struct measures {
  std::vector<double> detection;
  std::vector<double> resumption;
  std::vector<double> recovery;
};

void count(const fault_record& record, kind_verdict& into, measures& times) {
  ++into.injected;
  into.bit += record.bit ? 1 : 0;
  into.recovered += record.recovered() ? 1 : 0;
  if (into.steps_lost)
    *into.steps_lost += record.steps_lost;
  if (record.detected_seconds >= 0)
    times.detection.push_back(record.detected_seconds - record.began_seconds);
  if (record.resumed_seconds >= 0)
    times.resumption.push_back(record.resumed_seconds - record.began_seconds);
  if (record.recovered())
    times.recovery.push_back(record.recovered_seconds - record.ended_seconds);
}

void finish(kind_verdict& of, const measures& times) {
  of.detection = storage::percentiles_of(times.detection);
  of.resumption = storage::percentiles_of(times.resumption);
  of.recovery = storage::percentiles_of(times.recovery);
}

void judge_decisions(const std::vector<ledger::row>& rows, verdict& judged) {
  std::set<std::pair<std::uint64_t, std::uint64_t>> decided;
  std::map<std::string, std::set<std::string>> leaders; // of a term, as the event's text names it
  std::uint64_t newest_term = 0;
  std::uint64_t its_first_window = 0;
  for (const auto& row : rows) {
    if (const auto* window = std::get_if<ledger::window>(&row.entry); window != nullptr && window->decided) {
      judged.decided_twice += decided.insert({window->key.term, window->key.window}).second ? 0 : 1;
      // A leader that was stopped between keeping a decision and writing its row writes it when it wakes.
      judged.old_terms += window->key.term < newest_term && window->key.window >= its_first_window ? 1 : 0;
      if (window->key.term > newest_term) {
        newest_term = window->key.term;
        its_first_window = window->key.window;
      }
    } else if (const auto* event = std::get_if<ledger::event>(&row.entry);
               event != nullptr && event->event == ledger::event_kind::leader) {
      leaders[event->text].insert(event->host);
    }
  }
  for (const auto& [term, hosts] : leaders)
    judged.two_leaders += hosts.size() > 1 ? 1 : 0;
}

/// Of a run that was interrupted the newest faults may have had none.
bool had_time(const fault_record& record, const fault_limits& limits, const run_figures& run) {
  return !run.interrupted ||
         (record.ended_seconds >= 0 && run.end_seconds - record.ended_seconds > limits.recover_seconds);
}

void find_reasons(const fault_plan& plan, const std::vector<fault_record>& records, verdict& judged) {
  const auto& limits = plan.limits;
  const auto& run = judged.figures;
  auto& reasons = judged.reasons;
  const auto must_be_none = [&](std::uint64_t number, const std::string& what) {
    if (number > 0)
      reasons.push_back(fmt::format("{} {}", number, what));
  };
  if (!run.succeeded && !run.interrupted)
    reasons.push_back("the run failed: " + run.reason);
  if (run.interrupted && records.empty())
    reasons.push_back("no fault had begun");
  else if (records.empty())
    reasons.push_back("no fault began before the run ended");
  else if (!run.plan_done && !run.interrupted)
    reasons.push_back("the run ended before all faults of the plan had begun");
  must_be_none(run.decisions_lost, "decisions were lost");
  must_be_none(run.decisions_duplicated, "decisions came twice");
  must_be_none(run.samples_dropped.value_or(0), "samples were dropped");
  must_be_none(run.samples_repeated.value_or(0), "samples were trained twice");
  must_be_none(judged.decided_twice, "windows were decided twice in a term");
  must_be_none(judged.old_terms, "windows were decided in an old term");
  must_be_none(judged.two_leaders, "terms had two leaders");
  if (!judged.history.violation.empty())
    reasons.push_back("the decisions are not linearisable: " + judged.history.violation);
  reasons.insert(reasons.end(), run.complaints.begin(), run.complaints.end());
  // That nobody reads the wall clock is what a jump is to show.
  must_be_none(static_cast<std::uint64_t>(std::ranges::count_if(
                   records, [](const auto& each) { return !each.bit && each.plan.kind != fault_kind::clock_jump; })),
               "faults had no effect");
  must_be_none(static_cast<std::uint64_t>(std::ranges::count_if(
                   records, [&](const auto& each) { return !each.recovered() && had_time(each, limits, run); })),
               "faults were not recovered from in time");
  if (const auto lost = judged.all.steps_lost.value_or(0); lost > limits.steps_lost_per_fault * judged.all.injected)
    reasons.push_back(fmt::format("{} steps were lost in {} faults; {} each are allowed", lost, judged.all.injected,
                                  limits.steps_lost_per_fault));
  const auto within = [&](double measured, double limit, const char* what) {
    if (limit > 0 && measured > limit)
      reasons.push_back(fmt::format("{} took {:.2f} s; {:.2f} s are allowed", what, measured, limit));
  };
  within(judged.all.detection.max, limits.detect_seconds, "the slowest detection");
  within(judged.all.resumption.p99, limits.resume_seconds, "going on (p99)");
  within(judged.all.recovery.max, limits.recover_seconds, "the slowest recovery");
  if (run.unharmed_accuracy >= 0 && run.final_accuracy < run.unharmed_accuracy - limits.accuracy_drop)
    reasons.push_back(
        fmt::format("the final accuracy is {:.2f} %, {:.2f} % without faults; a drop of {:.2f} points is allowed",
                    run.final_accuracy * 100, run.unharmed_accuracy * 100, limits.accuracy_drop * 100));
  for (const auto& process : run.growth)
    if (limits.memory_growth_mib > 0 && process.faults >= faults_to_judge_growth &&
        process.memory_mib >
            limits.memory_growth_mib * std::max(1.0, static_cast<double>(process.faults) / faults_of_growth))
      reasons.push_back(fmt::format("{} grew by {:.1f} MiB in {} faults; {:.1f} MiB in {} are allowed", process.host,
                                    process.memory_mib, process.faults, limits.memory_growth_mib,
                                    static_cast<int>(faults_of_growth)));
}

} // namespace

verdict judge(const fault_plan& plan, const std::vector<fault_record>& records, const std::vector<ledger::row>& rows,
              const run_figures& figures) {
  const auto none_lost = plan.script.empty() ? std::optional<std::uint64_t>{0} : std::nullopt;
  verdict judged{.all = {.steps_lost = none_lost}, .figures = figures};
  measures all;
  for (std::size_t kind = 0; kind < fault_kinds.size(); ++kind) {
    kind_verdict one{.kind = static_cast<fault_kind>(kind), .steps_lost = none_lost};
    measures times;
    for (const auto& record : records)
      if (record.plan.kind == one.kind) {
        count(record, one, times);
        count(record, judged.all, all);
      }
    finish(one, times);
    if (one.injected > 0)
      judged.kinds.push_back(one);
  }
  finish(judged.all, all);
  for (const auto& record : records)
    if (!record.bit)
      judged.without_effect.push_back(fmt::format("{} {} at {:.1f} s: {}", to_string(record.plan.kind),
                                                  fmt::join(record.plan.hosts, ","), record.began_seconds,
                                                  record.evidence.empty() ? "no evidence" : record.evidence));
  judge_decisions(rows, judged);
  judged.history = check_decisions(rows, plan.script.empty() ? trained_by::agents : trained_by::scripts);
  find_reasons(plan, records, judged);
  judged.clean = judged.reasons.empty() && !figures.interrupted;
  return judged;
}

} // namespace dynamix::faults
