#include "node/comparison.hpp"
#include "node/plot.hpp"
#include "node/run_plots.hpp"
#include "node/text.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace dynamix::node {
namespace {

constexpr std::size_t points_drawn = 200;

/// Accuracy at `seconds`: linear between evaluations; what it was at the end stays. NaN before the first.
double accuracy_at(const run_series& series, double seconds) {
  const auto after = std::upper_bound(series.accuracy_seconds.begin(), series.accuracy_seconds.end(), seconds);
  const auto i = static_cast<std::size_t>(after - series.accuracy_seconds.begin());
  if (i == 0)
    return std::numeric_limits<double>::quiet_NaN();
  if (i == series.accuracy_seconds.size())
    return series.accuracy.back();
  const double share =
      (seconds - series.accuracy_seconds[i - 1]) / (series.accuracy_seconds[i] - series.accuracy_seconds[i - 1]);
  return series.accuracy[i - 1] + share * (series.accuracy[i] - series.accuracy[i - 1]);
}

/// The mean over the seeds, as percent, from when all have one until the last has ended.
plot_line accuracy_line(const policy_runs& of) {
  plot_line line{.name = label_of(of)};
  double begin = 0;
  double end = 0;
  std::vector<const run_series*> all;
  for (const auto& run : of.runs)
    if (!run.series.accuracy.empty()) {
      all.push_back(&run.series);
      begin = std::max(begin, run.series.accuracy_seconds.front());
      end = std::max(end, run.series.accuracy_seconds.back());
    }
  for (std::size_t i = 0; !all.empty() && i < points_drawn; ++i) {
    const double seconds = begin + (end - begin) * static_cast<double>(i) / (points_drawn - 1);
    std::vector<double> accuracies;
    for (const auto* series : all)
      accuracies.push_back(100 * accuracy_at(*series, seconds));
    const auto mean = estimate_of(accuracies);
    line.x.push_back(seconds);
    line.y.push_back(mean.mean);
    if (all.size() < 2)
      continue;
    line.low.push_back(std::max(0.0, mean.low()));
    line.high.push_back(std::min(100.0, mean.high()));
  }
  return line;
}

std::string accuracy_plot(const comparison& of) {
  plot drawn{.title = "Test accuracy, mean of the seeds and 95 % interval",
             .x_label = "seconds",
             .y_label = "test accuracy, %",
             .lines = {}};
  for (const auto& row : of.rows)
    drawn.lines.push_back(accuracy_line(row.of));
  return to_svg(drawn);
}

std::string seconds_plot(const comparison& of) {
  plot_bars drawn{.title = "Seconds to " + percent(of.target_accuracy) + " accuracy, with 95 % intervals",
                  .y_label = "seconds",
                  .groups = {},
                  .parts = {},
                  .values = {}};
  for (const auto& row : of.rows) {
    drawn.groups.push_back(label_of(row.of) + (row.reached_always() ? "" : ", never in some"));
    drawn.values.push_back({row.reached_always() ? row.seconds_to_target.mean : 0});
    drawn.low.push_back(row.reached_always() ? row.seconds_to_target.low() : std::nan(""));
    drawn.high.push_back(row.reached_always() ? row.seconds_to_target.high() : std::nan(""));
  }
  return to_svg(drawn);
}

std::string step_plot(const comparison& of) {
  plot_bars drawn{.title = "Where a step's time goes, mean of all",
                  .y_label = "milliseconds a step",
                  .groups = {},
                  .parts = {"compute", "exchange and waiting for others", "data"},
                  .values = {}};
  for (const auto& row : of.rows) {
    std::vector<double> parts(3, 0.0);
    const auto count = static_cast<double>(std::max<std::size_t>(row.of.runs.size(), 1));
    for (const auto& run : row.of.runs)
      for (std::size_t part = 0; part < parts.size(); ++part)
        parts[part] += 1e3 / count * std::array{run.compute_seconds, run.exchange_seconds, run.data_seconds}[part];
    drawn.groups.push_back(label_of(row.of));
    drawn.values.push_back(parts);
  }
  return to_svg(drawn);
}

/// One column of every policy's first run in one plot.
std::string course_plot(const comparison& of, column which, std::string title, std::string y_label, bool log_y) {
  plot drawn{
      .title = std::move(title), .x_label = "seconds", .y_label = std::move(y_label), .lines = {}, .log_y = log_y};
  for (const auto& row : of.rows)
    if (!row.of.runs.empty()) {
      const auto& windows = row.of.runs.front().series.windows;
      drawn.lines.push_back(
          {.name = label_of(row.of), .x = windows.of(column::seconds), .y = windows.of(which), .low = {}, .high = {}});
    }
  return to_svg(drawn);
}

/// What a single run's report shows, policy beside policy.
std::string courses_of(const comparison& of) {
  std::string text =
      "<h3>The courses of the first seed</h3>\n" +
      html_plots({course_plot(of, column::batch_loss, "Loss of the training batches", "mean loss", false),
                  course_plot(of, column::samples_per_second, "Throughput", "samples a second", false),
                  course_plot(of, column::global_batch, "Global batch", "samples", true)});
  std::vector<std::string> batches;
  std::vector<std::string> times;
  for (const auto& row : of.rows)
    if (!row.of.runs.empty()) {
      batches.push_back(batches_plot(row.of.runs.front(), label_of(row.of) + ": batch sizes", {}));
      times.push_back(step_time_plot(row.of.runs.front(), label_of(row.of) + ": where a step's time goes", {}));
    }
  return text + "<h3>Batch sizes</h3>\n" + html_plots(batches) + "<h3>Step times</h3>\n" + html_plots(times);
}

std::string section_of(const comparison& of) {
  std::string body = "<h2>" + html_escape(of.cluster) + "</h2>\n<p>" + html_escape(of.path) + ", target " +
                     percent(of.target_accuracy) + (of.simulated ? ", simulated" : ", trained on this machine") +
                     ". Mean and 95 % interval over the seeds; a ratio is of mean seconds to the target, below 1 "
                     "where the row is the faster.</p>\n" +
                     html_table(cells_of(of));
  if (!of.best_rival.empty())
    body += "<p>Best rival: " + html_escape(of.best_rival) + ".</p>\n";
  for (const auto& note : of.notes)
    body += "<p>" + html_escape(note) + "</p>\n";
  for (const auto& warning : of.warnings)
    body += "<p class=\"warning\">" + html_escape(warning) + "</p>\n";
  return body + html_plots({seconds_plot(of), accuracy_plot(of), step_plot(of)}) + courses_of(of);
}

} // namespace

std::string to_html(const std::vector<comparison>& all, const std::string& command) {
  std::string body = "<pre>" + html_escape(command) + "</pre>\n";
  if (const auto cells = closing_cells(all); !cells.empty())
    body += "<h2>All clusters</h2>\n<p>Seconds to the target over those of static.</p>\n" + html_table(cells);
  for (const auto& of : all)
    body += section_of(of);
  return html_page("Policies compared", body);
}

} // namespace dynamix::node
