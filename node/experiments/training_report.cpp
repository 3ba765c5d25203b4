#include "node/experiments/training_report.hpp"

#include "node/reports/sheet.hpp"
#include "node/reports/text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/core.h>

namespace dynamix::node {
namespace {

using simulator::training_curve;
using simulator::training_point;

std::string number(double value) {
  char text[32];
  const auto end = std::to_chars(std::begin(text), std::end(text), value).ptr;
  return {text, end};
}

const training_point* newest_validated(const training_curve& curve) {
  const auto found = std::find_if(curve.rbegin(), curve.rend(),
                                  [](const training_point& point) { return std::isfinite(point.against_goodput); });
  return found == curve.rend() ? nullptr : &*found;
}

sheet_chart chart_of(const training_curve& curve, std::string title, double training_point::*value) {
  sheet_line line{.name = "value", .x = {}, .y = {}, .low = {}, .high = {}};
  for (const auto& point : curve)
    if (std::isfinite(point.*value)) {
      line.x.push_back(point.update);
      line.y.push_back(point.*value);
    }
  return {.title = std::move(title), .axis = "updates", .lines = {std::move(line)}};
}

/// What came of updates alone: the point of the fresh policy has no such numbers.
training_curve updates_of(const training_curve& curve) {
  training_curve updates = curve;
  std::erase_if(updates, [](const training_point& point) { return point.update == 0; });
  return updates;
}

std::vector<sheet_chart> charts_of(const training_curve& curve) {
  const auto updates = updates_of(curve);
  return {chart_of(updates, "Reward, mean of an update's transitions", &training_point::reward),
          chart_of(curve, "Speed in validation, times goodput's", &training_point::against_goodput),
          chart_of(curve, "Speed in validation, times static's", &training_point::against_static),
          chart_of(updates, "Entropy, nats", &training_point::entropy),
          chart_of(updates, "Approximate KL divergence of an update, nats", &training_point::approximate_kl),
          chart_of(updates, "Value loss", &training_point::value_loss)};
}

} // namespace

std::string training_line(const training_pace& pace, const training_curve& curve) {
  std::string line = fmt::format("update {}/{}  {} windows", pace.update, pace.updates, grouped(pace.windows));
  if (pace.windows_per_second > 0)
    line += "  " + grouped(static_cast<std::uint64_t>(pace.windows_per_second)) + " windows/s";
  if (!curve.empty() && curve.back().update > 0)
    line += "  reward " + fixed(curve.back().reward, 3) + "  entropy " + fixed(curve.back().entropy, 3) + "  KL " +
            fixed(curve.back().approximate_kl, 4);
  if (const auto* validated = newest_validated(curve); validated != nullptr)
    line += "  validation " + fixed(validated->against_goodput, 3) + " of goodput";
  if (pace.seconds_left >= 0)
    line += "  ETA " + duration(pace.seconds_left);
  return line;
}

std::string curve_csv(const training_curve& curve) {
  std::string text;
  for (const auto& column : simulator::curve_columns)
    text += (text.empty() ? "" : ",") + std::string(column.name);
  for (const auto& point : curve) {
    char separator = '\n';
    for (const auto& column : simulator::curve_columns) {
      text += separator;
      if (std::isfinite(point.*column.value))
        text += number(point.*column.value);
      separator = ',';
    }
  }
  return text + "\n";
}

std::vector<std::vector<std::string>> validation_rows(const simulator::validation_scores& scores) {
  std::vector<std::vector<std::string>> rows = {{"scenario", "speed against goodput", "against static"}};
  for (const auto& row : scores.rows)
    rows.push_back({row.scenario, fixed(row.against_goodput, 3), fixed(row.against_static, 3)});
  rows.push_back({"geometric mean", fixed(scores.against_goodput, 3), fixed(scores.against_static, 3)});
  return rows;
}

std::string training_page(const training_origin& origin, const training_curve& curve,
                          const std::optional<simulator::validation_scores>& best) {
  const double updates = curve.empty() ? 0 : curve.back().update;
  const double windows = curve.empty() ? 0 : curve.back().windows;
  std::vector<sheet_section> sections;
  sections.push_back({.heading = "Where it comes from",
                      .paragraphs = {"Scenarios: " + listed(origin.scenarios)},
                      .table = {{"seed", "updates", "simulated windows", "commit"},
                                {std::to_string(origin.seed), grouped(static_cast<std::uint64_t>(updates)),
                                 grouped(static_cast<std::uint64_t>(windows)), origin.commit}}});
  if (best)
    sections.push_back({.heading = "The version that was kept",
                        .paragraphs = {"Effective epochs per second in the mode that learns nothing, on the scenarios "
                                       "as they are, over those of a rival on the same seeds."},
                        .table = validation_rows(*best)});
  sections.push_back({.heading = "Learning curve", .charts = charts_of(curve)});
  return sheet_page("Training of a " + origin.policy + " policy", origin.command, sections);
}

} // namespace dynamix::node
