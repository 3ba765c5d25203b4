#include "node/experiments/comparison.hpp"

#include "node/reports/text.hpp"

#include <algorithm>
#include <array>
#include <fmt/core.h>

namespace dynamix::node {
namespace {

constexpr double variation_most = 0.2;
constexpr std::array<const char*, 3> rivals = {"lb-bsp", "omnilearn", "goodput"};

std::vector<double> seconds_of(const comparison_row& row) {
  std::vector<double> seconds;
  for (const auto& run : row.of.runs)
    if (run.reached())
      seconds.push_back(run.seconds_to_target);
  return seconds;
}

comparison_row summarise_policy(policy_runs of) {
  comparison_row row;
  row.of = std::move(of);
  std::vector<double> accuracy;
  std::vector<double> speed;
  std::vector<double> decisions;
  std::vector<double> interventions;
  for (const auto& run : row.of.runs) {
    row.reached += run.reached() ? 1 : 0;
    if (!run.failure.empty())
      continue;
    accuracy.push_back(run.final_accuracy);
    speed.push_back(run.samples_per_second());
    decisions.push_back(static_cast<double>(run.decisions));
    interventions.push_back(static_cast<double>(run.interventions));
  }
  row.seconds_to_target = estimate_of(seconds_of(row));
  row.final_accuracy = estimate_of(accuracy);
  row.samples_per_second = estimate_of(speed);
  row.decisions = estimate_of(decisions);
  row.interventions = estimate_of(interventions);
  return row;
}

/// The row of that name, when all of its runs reached the target.
const comparison_row* find_baseline(const std::vector<comparison_row>& rows, const std::string& policy) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const auto& row) { return row.of.policy == policy; });
  return found == rows.end() || !found->reached_always() ? nullptr : &*found;
}

std::optional<estimate> ratio_to(const comparison_row& row, const comparison_row* baseline) {
  if (baseline == nullptr || !row.reached_always() || baseline->of.runs.size() != row.of.runs.size())
    return std::nullopt;
  return ratio_of(seconds_of(row), seconds_of(*baseline));
}

/// "ppo-simple: reward -0.520 in the first of 30 episodes, -0.310 in the last third; rising in 18 of 20 seeds, 95 % of
/// the way in episode 9.0 (median; 3 to 22)"; empty without episodes.
std::string learning_note(const policy_runs& of) {
  std::vector<double> firsts;
  std::vector<double> plateaus;
  for (const auto& run : of.runs)
    if (const auto course = course_of(run.episode_rewards)) {
      firsts.push_back(course->first);
      plateaus.push_back(course->plateau);
    }
  if (firsts.empty())
    return "";
  auto note = fmt::format("{}: reward {} in the first of {} episodes, {} in the last third; rising in {} of {} seeds",
                          of.policy, fixed(mean_of(firsts), 3), of.runs.front().episode_rewards.size(),
                          fixed(mean_of(plateaus), 3), plateaus_of(of).size(), of.runs.size());
  if (const auto rising = plateaus_of(of); !rising.empty())
    note += fmt::format(", 95 % of the way in episode {} (median; {} to {})", fixed(median_of(rising), 1),
                        fixed(*std::ranges::min_element(rising), 0), fixed(*std::ranges::max_element(rising), 0));
  return note;
}

void find_warnings(comparison& of) {
  for (const auto& row : of.rows) {
    const std::string label = label_of(row.of);
    if (const double variation = coefficient_of_variation(seconds_of(row)); variation > variation_most)
      of.warnings.push_back("high variance between runs: the seconds to target of " + label + " vary by " +
                            percent(variation, 0) + " (standard deviation over mean) between seeds");
    const auto failed =
        std::find_if(row.of.runs.begin(), row.of.runs.end(), [](const auto& run) { return !run.failure.empty(); });
    const auto count =
        std::count_if(row.of.runs.begin(), row.of.runs.end(), [](const auto& run) { return !run.failure.empty(); });
    if (count > 0)
      of.warnings.push_back(fmt::format("{} of {} runs of {} failed; seed {}: {}", count, row.of.runs.size(), label,
                                        failed->seed, printable(failed->failure)));
  }
}

} // namespace

std::vector<double> plateaus_of(const policy_runs& of) {
  std::vector<double> episodes;
  for (const auto& run : of.runs)
    if (const auto course = course_of(run.episode_rewards); course && course->episode)
      episodes.push_back(static_cast<double>(*course->episode));
  return episodes;
}

std::string label_of(const policy_runs& of) {
  return of.policy + (of.static_batch == 0 ? "" : fmt::format(" ({})", of.static_batch));
}

comparison compare(comparison empty, std::vector<policy_runs> policies) {
  auto& rows = empty.rows;
  for (auto& policy : policies)
    rows.push_back(summarise_policy(std::move(policy)));
  const comparison_row* best_rival = nullptr;
  for (const auto* name : rivals)
    if (const auto* rival = find_baseline(rows, name);
        rival != nullptr &&
        (best_rival == nullptr || rival->seconds_to_target.mean < best_rival->seconds_to_target.mean))
      best_rival = rival;
  if (best_rival != nullptr)
    empty.best_rival = best_rival->of.policy;
  for (auto& row : rows) {
    row.to_static = ratio_to(row, find_baseline(rows, "static"));
    row.to_static_best = ratio_to(row, find_baseline(rows, "static-best"));
    row.to_best_rival = ratio_to(row, best_rival);
    row.to_oracle = ratio_to(row, find_baseline(rows, "oracle"));
    row.to_step_oracle = ratio_to(row, find_baseline(rows, "step-oracle"));
  }
  for (const auto& row : rows)
    if (auto note = learning_note(row.of); !note.empty())
      empty.notes.push_back(std::move(note));
  find_warnings(empty);
  return empty;
}

} // namespace dynamix::node
