#include "cluster/text_table.hpp"
#include "node/experiments/comparison.hpp"
#include "node/reports/text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/core.h>
#include <initializer_list>

namespace dynamix::node {
namespace {

using json = nlohmann::ordered_json;

std::string mean_text(const estimate& of, int decimals) {
  if (!std::isfinite(of.mean))
    return "-";
  return decimals == 0 ? grouped(static_cast<std::uint64_t>(std::llround(std::max(0.0, of.mean))))
                       : fixed(of.mean, decimals);
}

/// "83.1 ± 4.2"; without an interval the mean alone.
std::string estimate_text(const estimate& of, int decimals) {
  return mean_text(of, decimals) + (std::isfinite(of.half_width) ? " ± " + fixed(of.half_width, decimals) : "");
}

std::string ratio_text(const std::optional<estimate>& ratio) {
  return ratio ? estimate_text(*ratio, 2) : "-";
}

std::string seconds_text(const comparison_row& row) {
  const std::size_t runs = row.of.runs.size();
  if (row.reached < runs)
    return fmt::format("never ({}/{})", runs - row.reached, runs);
  return estimate_text(row.seconds_to_target, 1);
}

json to_object(const estimate& of) {
  if (!std::isfinite(of.mean))
    return nullptr;
  const auto bound = [&](double value) { return std::isfinite(of.half_width) ? json(value) : json(nullptr); };
  return {{"mean", of.mean}, {"low", bound(of.low())}, {"high", bound(of.high())}, {"n", of.count}};
}

json to_object(const std::optional<estimate>& of) {
  return of ? to_object(*of) : json(nullptr);
}

json to_object(const comparison& of, const comparison_row& row) {
  json runs = json::array();
  for (const auto& run : row.of.runs)
    runs.push_back({{"seed", run.seed},
                    {"seconds_to_target", run.reached() ? json(run.seconds_to_target) : json(nullptr)},
                    {"final_accuracy", run.final_accuracy},
                    {"samples_per_second", run.samples_per_second()},
                    {"seconds", run.seconds},
                    {"windows", run.windows},
                    {"decisions", run.decisions},
                    {"interventions", run.interventions},
                    {"failure", run.failure.empty() ? json(nullptr) : json(run.failure)}});
  return {{"cluster", of.cluster},
          {"policy", row.of.policy},
          {"static_batch", row.of.static_batch == 0 ? json(nullptr) : json(row.of.static_batch)},
          {"simulated", of.simulated},
          {"target_accuracy", of.target_accuracy},
          {"seeds", row.of.runs.size()},
          {"reached", row.reached},
          {"seconds_to_target", to_object(row.seconds_to_target)},
          {"final_accuracy", to_object(row.final_accuracy)},
          {"samples_per_second", to_object(row.samples_per_second)},
          {"decisions", to_object(row.decisions)},
          {"interventions", to_object(row.interventions)},
          {"ratio_to_static", to_object(row.to_static)},
          {"ratio_to_static_best", to_object(row.to_static_best)},
          {"ratio_to_best_rival", to_object(row.to_best_rival)},
          {"best_rival", of.best_rival.empty() ? json(nullptr) : json(of.best_rival)},
          {"ratio_to_oracle", to_object(row.to_oracle)},
          {"ratio_to_step_oracle", to_object(row.to_step_oracle)},
          {"warnings", of.warnings},
          {"runs", runs}};
}

/// Puts spaces before the cells of a column, so that their numbers stand below each other.
void align(std::vector<std::vector<std::string>>& cells, std::size_t column) {
  const auto number_width = [&](const auto& row) { return std::min(row[column].find(" ±"), row[column].size()); };
  const auto is_number = [&](const auto& row) { return row[column].find_first_of("0123456789") == 0; };
  std::size_t widest = 0;
  for (std::size_t i = 1; i < cells.size(); ++i)
    if (is_number(cells[i]))
      widest = std::max(widest, number_width(cells[i]));
  for (std::size_t i = 1; i < cells.size(); ++i)
    if (is_number(cells[i]))
      cells[i][column].insert(0, widest - number_width(cells[i]), ' ');
}

std::string aligned_table(std::vector<std::vector<std::string>> cells) {
  for (std::size_t column = 1; column < cells.front().size(); ++column)
    align(cells, column);
  return cluster::text_table(cells, 2);
}

/// Whether two intervals have a number in common; nothing where one of them is of a single seed.
std::optional<bool> overlap(const estimate& left, const estimate& right) {
  if (!std::isfinite(left.half_width) || !std::isfinite(right.half_width))
    return std::nullopt;
  return left.low() <= right.high() && right.low() <= left.high();
}

std::string against(const comparison_row& best, const comparison_row& other) {
  const auto& fast = best.seconds_to_target;
  const auto& slow = other.seconds_to_target;
  const auto common = overlap(fast, slow);
  const auto times = fixed(slow.mean / fast.mean, 2);
  return fmt::format("{} {} ({} s and {} s{})", times == "1.00" ? "as soon as" : times + " times sooner than",
                     label_of(other.of), mean_text(fast, 1), mean_text(slow, 1),
                     !common   ? ""
                     : *common ? "; their intervals overlap, so these seeds do not tell the two apart"
                               : "; their intervals do not overlap");
}

} // namespace

std::string verdict_of(const comparison& of) {
  std::vector<const comparison_row*> order; // those that reached the target with every seed, the fastest first
  std::vector<std::string> others;
  for (const auto& row : of.rows) {
    if (row.of.policy == "oracle" || row.of.policy == "step-oracle") // these know what nobody can
      continue;
    if (row.reached_always())
      order.push_back(&row);
    else
      others.push_back(label_of(row.of));
  }
  std::ranges::sort(order, {}, [](const auto* row) { return row->seconds_to_target.mean; });
  const auto target = percent(of.target_accuracy);
  if (order.empty())
    return of.rows.empty() ? "" : fmt::format("No policy reached {} with every seed.", target);
  const auto& best = *order.front();
  std::string text = fmt::format("{} reached {}", label_of(best.of), target);
  const auto base =
      std::ranges::find_if(order, [](const auto* row) { return row->of.policy == "static"; }) - order.begin();
  const auto slowest = base == std::ssize(order) ? std::ssize(order) - 1 : base;
  if (slowest > 0)
    text += " " + against(best, *order[static_cast<std::size_t>(slowest)]);
  if (order.size() > 1 && slowest != 1)
    text += fmt::format("{}{}", slowest > 0 ? ", and " : " ", against(best, *order[1]));
  text += ".";
  if (!others.empty())
    text += fmt::format(" Not with every seed: {}.", ledger::listed(others));
  if (best.of.runs.size() == 1 && order.size() > 1)
    text += " With one seed, chance is not told from a difference (--seeds).";
  return text;
}

std::vector<std::vector<std::string>> cells_of(const comparison& of) {
  const auto compared = [&](std::initializer_list<std::string> policies) {
    return std::ranges::any_of(of.rows,
                               [&](const auto& row) { return std::ranges::count(policies, row.of.policy) > 0; });
  };
  struct ratio_column {
    const char* heading;
    std::optional<estimate> comparison_row::*ratio;
    bool shown; ///< only where the baseline was compared
  };
  const std::array<ratio_column, 5> ratios = {
      {{"/ static", &comparison_row::to_static, compared({"static"})},
       {"/ static-best", &comparison_row::to_static_best, compared({"static-best"})},
       {"/ best rival", &comparison_row::to_best_rival, compared({"lb-bsp", "omnilearn", "goodput"})},
       {"/ oracle", &comparison_row::to_oracle, compared({"oracle"})},
       {"/ step-oracle", &comparison_row::to_step_oracle, compared({"step-oracle"})}}};
  std::vector<std::vector<std::string>> cells = {
      {"policy", "seconds", "reached", "accuracy", "samples/s", "decisions", "interventions"}};
  for (const auto& row : of.rows)
    cells.push_back({label_of(row.of), seconds_text(row), fmt::format("{}/{}", row.reached, row.of.runs.size()),
                     std::isfinite(row.final_accuracy.mean) ? percent(row.final_accuracy.mean) : "-",
                     mean_text(row.samples_per_second, 0), mean_text(row.decisions, 0),
                     mean_text(row.interventions, 0)});
  for (const auto& column : ratios) {
    if (!column.shown)
      continue;
    cells.front().emplace_back(column.heading);
    for (std::size_t i = 0; i < of.rows.size(); ++i)
      cells[i + 1].push_back(ratio_text(of.rows[i].*column.ratio));
  }
  return cells;
}

std::vector<std::vector<std::string>> closing_cells(const std::vector<comparison>& all) {
  if (all.size() < 2)
    return {};
  std::vector<std::vector<std::string>> cells = {{"seconds / static's"}};
  std::vector<std::string> medians = {"median"};
  for (const auto& of : all)
    cells.push_back({of.cluster});
  for (std::size_t policy = 0; policy < all.front().rows.size(); ++policy) {
    cells.front().push_back(all.front().rows[policy].of.policy);
    std::vector<double> ratios;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto& ratio = all[i].rows[policy].to_static;
      cells[i + 1].push_back(ratio ? fixed(ratio->mean, 2) : "-");
      if (ratio)
        ratios.push_back(ratio->mean);
    }
    medians.push_back(ratios.empty() ? "-" : fixed(median_of(ratios), 2));
  }
  cells.push_back(medians);
  return cells;
}

std::string to_text(const comparison& of) {
  const std::size_t seeds = of.rows.empty() ? 0 : of.rows.front().of.runs.size();
  const auto verdict = verdict_of(of);
  std::string text =
      fmt::format("{}: seconds to {} test accuracy, {}{}{}{}{}", of.cluster, percent(of.target_accuracy), seeds,
                  seeds == 1 ? " seed" : " seeds, mean ± 95 % interval", of.simulated ? ", simulated\n" : "\n",
                  verdict.empty() ? "" : "  " + verdict + "\n", aligned_table(cells_of(of)));
  if (!of.best_rival.empty())
    text += "  best rival: " + of.best_rival + "\n";
  for (const auto& note : of.notes)
    text += "  " + note + "\n";
  for (const auto& warning : of.warnings)
    text += "  warning: " + warning + "\n";
  return text;
}

std::string closing_text(const std::vector<comparison>& all) {
  const auto cells = closing_cells(all);
  return cells.empty() ? "" : "all clusters: seconds to target over static's\n" + cluster::text_table(cells, 2);
}

std::string to_json(const std::vector<comparison>& all) {
  json rows = json::array();
  for (const auto& of : all)
    for (const auto& row : of.rows)
      rows.push_back(to_object(of, row));
  return rows.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

} // namespace dynamix::node
