#include "ledger/warnings.hpp"

#include "ledger/summary.hpp"
#include "ledger/text.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <utility>

namespace dynamix::ledger {
namespace {

using sentences = std::vector<std::string>;

constexpr std::uint64_t windows_for_a_verdict = 20;
constexpr std::uint64_t windows_for_a_trend = 60;
constexpr double telemetry_share_max = 0.01; ///< of the time
constexpr double stale_share_max = 0.05;     ///< of the reports
constexpr double guarded_share_max = 0.3;    ///< of the windows
constexpr double diverged_loss = 1e30;       ///< the trainer reports a loss that is not finite as a huge one
constexpr double risen_loss = 2;             ///< times its first
constexpr std::uint64_t steps_to_learn = 100;
constexpr double clear_errors = 3;        ///< standard errors
constexpr double entropy_share_min = 0.1; ///< of that of even odds
constexpr double entropy_fall_min = 2;    ///< times
constexpr double nearly_best = -0.15;     ///< log2 of goodput over the best: nothing is left to be found
constexpr double recent_fault_seconds = 300;
constexpr std::size_t names_shown = 4;

/// "ada, ben and 3 more"
std::string some_of(const std::vector<std::string>& names) {
  if (names.size() <= names_shown)
    return listed(names);
  return fmt::format("{} and {} more", listed(std::span(names).first(names_shown)), names.size() - names_shown);
}

/// A reward that has fallen by more than that from its best has collapsed: by a fifth, or by a fifth of goodput where
/// the reward is its log2.
double collapse_of(cluster::reward_kind kind, double best_reward) {
  constexpr double share = 0.2;
  return kind == cluster::reward_kind::progress ? -std::log2(1 - share) : share * std::abs(best_reward);
}

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

/// What is known of a signal, oldest first, a number a row of the history.
std::vector<double> course_of(const run& run, signal which) {
  std::vector<double> values;
  for (std::size_t row = 0; row < run.course().history().rows(); ++row)
    if (const double value = run.course().history().row(row)[static_cast<std::size_t>(which)]; !std::isnan(value))
      values.push_back(value);
  return values;
}

void find_collapse(const run& run, std::span<const double> rewards, sentences& found) {
  const auto [first, second, last] = estimate_thirds(rewards);
  const auto& best = first.mean > second.mean ? first : second;
  const double drop = best.mean - last.mean;
  const double large = collapse_of(run.file().reward_in_force(), best.mean);
  if (drop > large && drop > clear_errors * error_between(best, last))
    found.push_back(fmt::format("the reward collapsed from {:.3f} in the {} third of the run to {:.3f} in the last; "
                                "unless the cluster became slower, start from an earlier policy with a smaller "
                                "ppo.learning_rate, or with arbitrator.mode = \"infer\"",
                                best.mean, &best == &first ? "first" : "second", last.mean));
}

/// A policy that stops trying out before it has found anything. One that was nearly as certain from the start was
/// trained before, and one that comes near the best there is has found it.
void find_early_plateau(const run& run, std::span<const double> rewards, sentences& found) {
  const auto entropies = course_of(run, signal::entropy);
  const std::span<const double> course = entropies;
  if (course.size() < windows_for_a_trend || run.choices() < 2)
    return;
  const double even_odds = std::log(static_cast<double>(run.choices()));
  const auto third = course.size() / 3;
  const auto tenth = course.size() / 10;
  const double before = estimate_mean(course.first(tenth)).mean / even_odds;
  const double after = estimate_mean(course.subspan(third - tenth, tenth)).mean / even_odds;
  if (before < entropy_share_min || after >= entropy_share_min || before < entropy_fall_min * after)
    return;
  const auto [first, second, last] = estimate_thirds(rewards);
  if (run.file().reward_in_force() == cluster::reward_kind::progress && last.mean > nearly_best)
    return;
  for (const auto& later : {second, last})
    if (later.mean - first.mean > clear_errors * error_between(first, later))
      return;
  found.push_back(fmt::format("the policy stopped exploring early: before a third of the run its entropy had fallen to "
                              "{} of that of even odds, and the reward has not risen since ({:.3f} in the first third, "
                              "{:.3f} in the last); a larger ppo.entropy_coefficient or a smaller ppo.learning_rate "
                              "keeps it trying",
                              percent(after, 1), first.mean, last.mean));
}

void find_learning_troubles(const run& run, sentences& found) {
  const auto& arbitrator = run.file().arbitrator;
  if (!cluster::has_parameters(arbitrator.policy) || arbitrator.mode != cluster::policy_mode::train ||
      arbitrator.shadow)
    return;
  const auto rewards = course_of(run, signal::reward);
  if (rewards.size() < windows_for_a_trend)
    return;
  find_collapse(run, rewards, found);
  find_early_plateau(run, rewards, found);
}

/// The loss of somebody who gives each class the same odds, of data sets of images; 0 of others, and of users' own
/// training.
double loss_of_guessing(const cluster::training& training) {
  if (training.trainer == cluster::trainer_kind::client)
    return 0;
  switch (training.dataset) {
  case cluster::dataset_kind::fashion_mnist:
  case cluster::dataset_kind::fashion_mnist_32:
  case cluster::dataset_kind::cifar10:
    return std::log(10.0);
  case cluster::dataset_kind::cifar100:
    return std::log(100.0);
  default:
    return 0;
  }
}

std::uint64_t newest_step(const run& run) {
  std::uint64_t step = 0;
  for (const auto& worker : run.workers())
    step = std::max(step, worker.report.first_step);
  return step;
}

/// A loss that is not finite, one that stays far above its first, or that of guessing: too large a learning rate kills
/// a network without a single number that is none.
template <class Evaluations>
void find_divergence(const run& run, const Evaluations& evaluations, sentences& found) {
  constexpr auto advice = "try a smaller training.learning_rate or clip_norm";
  const auto huge = std::ranges::find_if(evaluations, [](const auto& evaluation) {
    return std::max(evaluation.train_loss, evaluation.test_loss) >= diverged_loss;
  });
  if (huge != evaluations.end() || static_cast<double>(run.course().newest(signal::loss)) >= diverged_loss) {
    found.push_back(fmt::format("training diverged: the loss is not finite by step {}; {}",
                                huge != evaluations.end() ? huge->step : newest_step(run), advice));
    return;
  }
  const auto losses = course_of(run, signal::loss);
  if (losses.size() >= windows_for_a_verdict && losses.front() > 0) {
    const auto late = estimate_thirds(losses).back().mean;
    if (late > risen_loss * losses.front()) {
      found.push_back(
          fmt::format("training diverges: the loss has risen from {:.3g} at the beginning to {:.3g} by step "
                      "{}; {}",
                      losses.front(), late, newest_step(run), advice));
      return;
    }
  }
  const double guessing = loss_of_guessing(run.file().training);
  const auto learnt_nothing = [&](const auto& evaluation) {
    return evaluation.step >= steps_to_learn && evaluation.test_loss >= guessing;
  };
  if (guessing > 0 && evaluations.size() >= 2 && learnt_nothing(evaluations.back()) &&
      learnt_nothing(*std::prev(evaluations.end(), 2)))
    found.push_back(fmt::format("training has learnt nothing by step {}: its test loss of {:.3g} is not below that of "
                                "guessing, {:.3g}; {}",
                                evaluations.back().step, evaluations.back().test_loss, guessing, advice));
}

void find_costly_telemetry(double share, sentences& found) {
  if (share > telemetry_share_max)
    found.push_back(
        fmt::format("telemetry costs {} of the time; [telemetry] sources = [] turns it off", percent(share)));
}

void find_late_reports(const run& run, double share, sentences& found) {
  const auto most = std::ranges::max_element(run.workers(), {}, &live_worker::stale_reports);
  if (share > stale_share_max && most != run.workers().end())
    found.push_back(fmt::format("{} of the window reports came too late for their window, most of them from {}; a "
                                "larger cluster.detect_ms waits longer",
                                percent(share, 1), most->name));
}

void find_guarded_policy(const run& run, double share, sentences& found) {
  const auto& causes = run.totals().guard_causes;
  const auto most = std::ranges::max_element(causes, {}, [](const auto& cause) { return cause.second; });
  if (share > guarded_share_max && most != causes.end())
    found.push_back(
        fmt::format("the guard overrode the policy in {} of the windows, mostly for: {}; the policy does not fit "
                    "this cluster: train it further, or use arbitrator.policy = \"goodput\"",
                    percent(share, 0), most->first));
}

/// At a bound for the last windows, or for the second half of a run that is over.
void find_stuck_batches(const run& run, bool over, sentences& found) {
  if (!cluster::adapts(run.file().arbitrator.policy) || run.file().arbitrator.shadow)
    return;
  std::map<std::pair<std::uint32_t, std::string>, std::vector<std::string>> stuck; // by size and bound
  for (const auto& worker : run.workers()) {
    const auto& course = worker.course;
    const auto half = course.reports() - course.reports() / 2;
    const auto batch = course.last_batch();
    const bool low = batch == worker.batch_lowest;
    if (course.same_batch() < (over ? half : windows_for_a_verdict) || course.reports() < windows_for_a_verdict ||
        worker.batch_lowest == worker.limit() || (!low && batch != worker.limit()))
      continue;
    const auto* host = run.file().find(worker.name);
    const std::string bound = low                                           ? "batch.lowest"
                              : worker.limit() < worker.batch_highest       ? "highest_batch"
                              : host == nullptr || host->batch_highest == 0 ? "batch.highest"
                                                                            : "host.batch_highest";
    stuck[{batch, bound}].push_back(worker.name);
  }
  for (const auto& [where, names] : stuck) {
    const auto& [batch, bound] = where;
    const bool low = bound == "batch.lowest";
    found.push_back(fmt::format("the batch size of {} is stuck at {}, {}; a {} {} gives the policy room{}",
                                some_of(names), bound, batch, low ? "lower" : "higher", bound,
                                low ? "" : ", if memory allows"));
  }
}

/// Who is not there now, and what happened last.
void find_faults(const run& run, sentences& found) {
  if (run.ended())
    return;
  std::vector<std::string> lost;
  for (const auto& worker : run.workers())
    if (worker.state == worker_state::lost && run.file().find(worker.name) != nullptr) // others may come and go
      lost.push_back(worker.name);
  if (!lost.empty())
    found.push_back("not training with the others: " + some_of(lost));
  for (const auto& [name, shard] : run.shards())
    if (shard.state == shard_state::late || shard.state == shard_state::lost)
      found.push_back(fmt::format("the arbitrator of {} is {}", name, messages::name_of(shard.state)));
  const auto& marks = run.marks();
  for (auto mark = marks.rbegin(); mark != marks.rend(); ++mark)
    if (mark->kind == mark_kind::fault && mark->elapsed_seconds + recent_fault_seconds >
                                              static_cast<double>(run.course().newest(signal::elapsed_seconds)))
      return found.push_back("lately: " + mark->text);
}

void find_lost_contact(const run& run, const run_summary& summary, sentences& found) {
  for (const auto& [host, times] : run.totals().lost) {
    const auto restarts = summary.restarts_by_host.find(host);
    if (restarts != summary.restarts_by_host.end() && restarts->second >= times)
      continue; // its process died: that is no matter of the network
    found.push_back(fmt::format("contact with {} was lost {}; if its process did not end, look at the network, or let "
                                "it be silent for longer with a larger cluster.detect_ms",
                                host, times == 1 ? "once" : fmt::format("{} times", times)));
  }
  for (const auto& [host, times] : summary.restarts_by_host)
    found.push_back(host + " died and was started again" + (times == 1 ? "" : fmt::format(" {} times", times)));
}

void find_account_troubles(const std::vector<messages::farewell>& farewells, const run_summary& summary,
                           sentences& found) {
  if (summary.decisions.lost > 0)
    found.push_back(fmt::format("{} decisions were lost", summary.decisions.lost));
  if (summary.decisions.duplicated > 0)
    found.push_back(fmt::format("{} decisions came twice and were refused", summary.decisions.duplicated));
  std::set<std::uint64_t> ends; // of those who ended together
  for (const auto& farewell : farewells)
    if (farewell.succeeded)
      ends.insert(farewell.parameter_checksum);
  if (summary.succeeded && ends.size() > 1)
    found.push_back("the workers ended with different parameters");
}

double share_of(std::uint64_t part, std::uint64_t all) {
  return all > 0 ? static_cast<double>(part) / static_cast<double>(all) : 0;
}

} // namespace

std::vector<std::string> find_warnings(const run& run) {
  sentences found;
  const auto& recent = run.recent();
  find_faults(run, found);
  find_divergence(run, run.evaluations(), found);
  if (recent.windows >= windows_for_a_verdict) {
    find_costly_telemetry(recent.telemetry_share, found);
    find_late_reports(run, recent.stale_share, found);
    find_guarded_policy(run, recent.guarded_share, found);
  }
  find_stuck_batches(run, false, found);
  find_learning_troubles(run, found);
  found.insert(found.end(), run.warnings().rbegin(), run.warnings().rend());
  if (found.size() > warnings_shown)
    found.resize(warnings_shown);
  return found;
}

std::vector<std::string> find_warnings(const run_records& records, const run_summary& summary) {
  const auto& run = records.run;
  const auto& totals = run.totals();
  sentences found(run.warnings().begin(), run.warnings().end());
  find_divergence(run, records.evaluations, found);
  find_account_troubles(records.farewells, summary, found);
  find_costly_telemetry(summary.telemetry_fraction, found);
  find_lost_contact(run, summary, found);
  find_late_reports(run, share_of(totals.stale_reports, totals.reports), found);
  find_stuck_batches(run, true, found);
  if (totals.decided_windows >= windows_for_a_verdict)
    find_guarded_policy(run, share_of(totals.intervened_windows, totals.decided_windows), found);
  find_learning_troubles(run, found);
  return found;
}

} // namespace dynamix::ledger
