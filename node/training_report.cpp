#include "node/training_report.hpp"

#include "node/listed.hpp"
#include "node/plot.hpp"
#include "node/text.hpp"

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

plot_line line_of(const training_curve& curve, std::string name, double training_point::*value) {
  plot_line line{.name = std::move(name)};
  for (const auto& point : curve)
    if (std::isfinite(point.*value)) {
      line.x.push_back(point.update);
      line.y.push_back(point.*value);
    }
  return line;
}

/// What came of updates alone: the point of the fresh policy has no such numbers.
training_curve updates_of(const training_curve& curve) {
  training_curve updates = curve;
  std::erase_if(updates, [](const training_point& point) { return point.update == 0; });
  return updates;
}

std::string plots(const training_curve& curve) {
  const auto updates = updates_of(curve);
  const auto draw = [](std::string title, std::string y_label, std::vector<plot_line> lines) {
    return to_svg(plot{.title = std::move(title), .x_label = "update", .y_label = std::move(y_label), .lines = lines});
  };
  return html_plots(
      {draw("Reward", "mean of an update's transitions", {line_of(updates, "reward", &training_point::reward)}),
       draw("Speed in validation, against goodput", "times as fast",
            {line_of(curve, "against goodput", &training_point::against_goodput)}),
       draw("Speed in validation, against static", "times as fast",
            {line_of(curve, "against static", &training_point::against_static)}),
       draw("Entropy", "nats", {line_of(updates, "entropy", &training_point::entropy)}),
       draw("Approximate KL divergence of an update", "nats",
            {line_of(updates, "approximate KL", &training_point::approximate_kl)}),
       draw("Value loss", "", {line_of(updates, "value loss", &training_point::value_loss)})});
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
  std::string body = "<pre>" + html_escape(origin.command) + "</pre>\n" +
                     html_table({{"seed", "updates", "simulated windows", "commit"},
                                 {std::to_string(origin.seed), grouped(static_cast<std::uint64_t>(updates)),
                                  grouped(static_cast<std::uint64_t>(windows)), origin.commit}}) +
                     "<p>Scenarios: " + html_escape(listed(origin.scenarios)) + "</p>\n";
  if (best)
    body += "<h2>The version that was kept</h2>\n<p>Effective epochs a second in the mode that learns nothing, on the "
            "scenarios as they are, over those of a rival on the same seeds.</p>\n" +
            html_table(validation_rows(*best));
  body += "<h2>Learning curve</h2>\n" + plots(curve);
  return html_page("Training of a " + origin.policy + " policy", body);
}

} // namespace dynamix::node
