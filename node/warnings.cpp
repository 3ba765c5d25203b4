#include "dashboard/warning_limits.hpp"
#include "node/summary.hpp"
#include "node/text.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <span>

namespace dynamix::node {
namespace {

using sentences = std::vector<std::string>;

constexpr std::size_t windows_for_a_verdict = 20;
constexpr std::size_t windows_for_a_trend = 60;
constexpr double clear_errors = 3;        ///< standard errors
constexpr double entropy_share_min = 0.1; ///< of that of even odds

struct estimate {
  double mean = 0;
  double error = 0; ///< standard error of the mean
};

estimate estimate_mean(std::span<const double> values) {
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (const double value : values)
    squares += (value - mean) * (value - mean);
  return {mean, std::sqrt(squares / (count * (count - 1)))};
}

std::array<estimate, 3> estimate_thirds(std::span<const double> values) {
  const auto third = values.size() / 3;
  return {estimate_mean(values.first(third)), estimate_mean(values.subspan(third, third)),
          estimate_mean(values.last(third))};
}

double error_between(const estimate& left, const estimate& right) {
  return std::hypot(left.error, right.error);
}

void find_collapse(const run_records& records, const std::vector<double>& rewards, sentences& found) {
  const auto [first, second, last] = estimate_thirds(rewards);
  const auto& best = first.mean > second.mean ? first : second;
  const double drop = best.mean - last.mean;
  const double large = dashboard::collapse_of(records.file.reward_in_force(), best.mean);
  if (drop > large && drop > clear_errors * error_between(best, last))
    found.push_back("the reward collapsed from " + fixed(best.mean, 3) + " in the " +
                    (&best == &first ? "first" : "second") + " third of the run to " + fixed(last.mean, 3) +
                    " in the last; unless the cluster became slower, start from an earlier policy with a smaller "
                    "ppo.learning_rate, or with arbitrator.mode = \"infer\"");
}

/// A policy that stops trying out before it has found anything. One that was certain from the start was trained before.
void find_early_plateau(const run_course::learning_curves& curves, sentences& found) {
  const std::span<const double> shares = curves.entropy_shares;
  if (shares.size() < windows_for_a_trend)
    return;
  const auto third = shares.size() / 3;
  const auto tenth = shares.size() / 10;
  const double before = estimate_mean(shares.first(tenth)).mean;
  const double after = estimate_mean(shares.subspan(third - tenth, tenth)).mean;
  if (before < entropy_share_min || after >= entropy_share_min)
    return;
  const auto [first, second, last] = estimate_thirds(curves.rewards);
  for (const auto& later : {second, last})
    if (later.mean - first.mean > clear_errors * error_between(first, later))
      return;
  found.push_back("the policy stopped exploring early: before a third of the run its entropy had fallen to " +
                  percent(after, 1) + " of that of even odds, and the reward has not risen since (" +
                  fixed(first.mean, 3) + " in the first third, " + fixed(last.mean, 3) +
                  " in the last); a larger ppo.entropy_coefficient or a smaller ppo.learning_rate keeps it trying");
}

void find_learning_troubles(const run_records& records, sentences& found) {
  const auto& arbitrator = records.file.arbitrator;
  if (!cluster::has_parameters(arbitrator.policy) || arbitrator.mode != cluster::policy_mode::train ||
      arbitrator.shadow)
    return;
  const auto& curves = records.course.learning();
  if (curves.rewards.size() < windows_for_a_trend)
    return;
  find_collapse(records, curves.rewards, found);
  find_early_plateau(curves, found);
}

void find_guarded_policy(const run_records& records, const decision_summary& decisions, sentences& found) {
  const auto windows = static_cast<double>(decisions.windows);
  if (decisions.windows < windows_for_a_verdict ||
      static_cast<double>(decisions.interventions) <= dashboard::guarded_share_max * windows)
    return;
  const auto& causes = records.course.guard_causes();
  const auto most = std::ranges::max_element(causes, {}, [](const auto& cause) { return cause.second; });
  found.push_back("the guard stepped in in " + std::to_string(decisions.interventions) + " of " +
                  std::to_string(decisions.windows) + " windows (" +
                  percent(static_cast<double>(decisions.interventions) / windows, 0) + "), mostly for: " + most->first +
                  "; the policy does not fit this cluster: train it further, or use arbitrator.policy = \"goodput\"");
}

void find_stuck_batches(const run_records& records, sentences& found) {
  if (!cluster::adapts(records.file.arbitrator.policy) || records.file.arbitrator.shadow)
    return;
  const auto lowest = records.file.batch.lowest;
  const auto highest = records.file.highest_by_rank();
  for (std::uint32_t rank = 0; const auto* host : records.file.workers()) {
    const auto own_highest = highest[rank++];
    const auto* course = records.course.find_worker(host->name);
    if (course == nullptr || course->reports() < windows_for_a_verdict || lowest == own_highest)
      continue;
    const bool still = course->same_batch() >= course->reports() - course->reports() / 2; // in the second half
    for (const auto bound : {lowest, own_highest})
      if (still && course->last_batch() == bound) {
        const std::string name = bound == lowest            ? "batch.lowest"
                                 : host->batch_highest == 0 ? "batch.highest"
                                                            : "host.batch_highest";
        found.push_back("the batch size of " + host->name + " was stuck at " + name + ", " + std::to_string(bound) +
                        ", for the second half of the run; a " + (bound == lowest ? "lower " : "higher ") + name +
                        " gives the policy room" + (bound == lowest ? "" : ", if memory allows"));
      }
  }
}

void find_lost_contact(const run_records& records, const run_summary& summary, sentences& found) {
  std::map<std::string, std::uint64_t> lost;
  for (const auto& row : records.rows)
    if (const auto* event = std::get_if<ledger::event>(&row.entry); event != nullptr && event->event == "lost")
      ++lost[printable(event->host)];
  for (const auto& [host, times] : lost) {
    const auto restarts = summary.restarts_by_host.find(host);
    if (restarts != summary.restarts_by_host.end() && restarts->second >= times)
      continue; // its process died: that is no matter of the network
    found.push_back("contact with " + host + " was lost " + (times == 1 ? "once" : std::to_string(times) + " times") +
                    "; if its process did not end, look at the network, or let it be silent for longer with a larger "
                    "cluster.detect_ms");
  }
  for (const auto& [host, times] : summary.restarts_by_host)
    found.push_back(host + " died and was started again" + (times == 1 ? "" : " " + std::to_string(times) + " times"));
}

void find_stale_reports(const run_records& records, sentences& found) {
  const auto& [reports, stale, late] = records.course.late();
  if (static_cast<double>(stale) <= dashboard::stale_share_max * static_cast<double>(reports))
    return;
  const auto most = std::ranges::max_element(late, {}, [](const auto& host) { return host.second; });
  found.push_back(std::to_string(stale) + " of " + std::to_string(reports) +
                  " window reports came too late for their window, " + std::to_string(most->second) + " of them from " +
                  printable(most->first) + "; a larger cluster.detect_ms waits longer");
}

} // namespace

std::vector<std::string> find_warnings(const run_records& records, const run_summary& summary) {
  sentences found;
  for (const auto& row : records.rows)
    if (const auto* event = std::get_if<ledger::event>(&row.entry); event != nullptr && event->event == "warning")
      found.push_back((event->host.empty() ? "" : event->host + ": ") + printable(event->text));
  if (std::any_of(records.evaluations.begin(), records.evaluations.end(), [](const auto& evaluation) {
        return std::max(evaluation.train_loss, evaluation.test_loss) >= dashboard::diverged_loss;
      }))
    found.push_back("training diverged: the loss is not finite; try a smaller training.learning_rate or clip_norm");
  if (summary.decisions.lost > 0)
    found.push_back(std::to_string(summary.decisions.lost) + " decisions were lost");
  if (summary.decisions.duplicated > 0)
    found.push_back(std::to_string(summary.decisions.duplicated) + " decisions came twice and were refused");
  std::set<std::uint64_t> ends; // of those who ended together
  for (const auto& farewell : records.farewells)
    if (farewell.succeeded)
      ends.insert(farewell.parameter_checksum);
  if (summary.succeeded && ends.size() > 1)
    found.push_back("the workers ended with different parameters");
  if (summary.telemetry_fraction > dashboard::telemetry_share_max)
    found.push_back("telemetry cost " + percent(summary.telemetry_fraction) +
                    " of the time; [telemetry] sources = [] turns it off");
  find_lost_contact(records, summary, found);
  find_stale_reports(records, found);
  find_stuck_batches(records, found);
  find_guarded_policy(records, summary.decisions, found);
  find_learning_troubles(records, found);
  return found;
}

} // namespace dynamix::node
