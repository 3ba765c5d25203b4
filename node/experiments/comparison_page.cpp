#include "node/experiments/comparison.hpp"
#include "node/reports/sheet.hpp"
#include "node/reports/text.hpp"

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

double as_share(double value) {
  return std::isfinite(value) ? std::clamp(value, 0.0, 1.0) : absent;
}

/// The mean over the seeds at each of `times`, from when all have one until the last has ended.
sheet_line accuracy_line(const policy_runs& of, const std::vector<double>& times) {
  sheet_line line{.name = label_of(of), .x = times, .y = {}, .low = {}, .high = {}};
  double begin = 0;
  double end = 0;
  std::vector<const run_series*> all;
  for (const auto& run : of.runs)
    if (!run.series.accuracy.empty()) {
      all.push_back(&run.series);
      begin = std::max(begin, run.series.accuracy_seconds.front());
      end = std::max(end, run.series.accuracy_seconds.back());
    }
  for (const double seconds : times) {
    std::vector<double> accuracies;
    for (const auto* series : all)
      accuracies.push_back(seconds < begin || seconds > end ? absent : accuracy_at(*series, seconds));
    const auto mean = estimate_of(accuracies);
    line.y.push_back(accuracies.empty() ? absent : mean.mean);
    if (all.size() < 2)
      continue;
    line.low.push_back(as_share(mean.low()));
    line.high.push_back(as_share(mean.high()));
  }
  return line;
}

sheet_chart accuracy_chart(const comparison& of) {
  double end = 0;
  for (const auto& row : of.rows)
    for (const auto& run : row.of.runs)
      end = std::max(end, run.series.accuracy_seconds.empty() ? 0 : run.series.accuracy_seconds.back());
  std::vector<double> times; // the same for all, so that a reader compares them at one
  for (std::size_t i = 0; i < points_drawn; ++i)
    times.push_back(end * static_cast<double>(i) / (points_drawn - 1));
  sheet_chart drawn{.title = "Test accuracy, mean of the seeds and 95 % interval", .format = "share"};
  for (const auto& row : of.rows)
    drawn.lines.push_back(accuracy_line(row.of, times));
  return drawn;
}

sheet_chart seconds_chart(const comparison& of) {
  sheet_chart drawn{.title = "Time to " + percent(of.target_accuracy) + " accuracy, with 95 % intervals",
                    .format = "span",
                    .parts = {"time to the target"}};
  for (const auto& row : of.rows) {
    const auto& seconds = row.seconds_to_target;
    if (row.reached_always())
      drawn.bars.push_back({label_of(row.of), {seconds.mean}, seconds.low(), seconds.high(), ""});
    else
      drawn.bars.push_back({label_of(row.of), {absent}, absent, absent, "not reached by all"});
  }
  return drawn;
}

sheet_chart step_chart(const comparison& of) {
  sheet_chart drawn{
      .title = "Where a step's time goes, mean of all", .format = "span", .parts = {"compute", "exchange", "data"}};
  for (const auto& row : of.rows) {
    std::vector<double> parts(3, 0.0);
    const auto count = static_cast<double>(std::max<std::size_t>(row.of.runs.size(), 1));
    for (const auto& run : row.of.runs)
      for (std::size_t part = 0; part < parts.size(); ++part)
        parts[part] += std::array{run.compute_seconds, run.exchange_seconds, run.data_seconds}[part] / count;
    drawn.bars.push_back({.name = label_of(row.of), .values = parts, .note = ""});
  }
  return drawn;
}

/// One column of every policy's first run.
sheet_chart course_chart(const comparison& of, column which, std::string title, bool logarithmic) {
  sheet_chart drawn{.title = std::move(title), .logarithmic = logarithmic};
  for (const auto& row : of.rows)
    if (!row.of.runs.empty()) {
      const auto& windows = row.of.runs.front().series.windows;
      drawn.lines.push_back(
          {.name = label_of(row.of), .x = windows.of(column::seconds), .y = windows.of(which), .low = {}, .high = {}});
    }
  return drawn;
}

sheet_chart batches_chart(const policy_runs& of) {
  const auto& series = of.runs.front().series;
  sheet_chart drawn{.title = label_of(of) + ": batch sizes", .format = "count", .logarithmic = true};
  for (std::size_t i = 0; i < series.batch_names.size(); ++i)
    drawn.lines.push_back(
        {.name = series.batch_names[i], .x = series.batch_seconds, .y = series.batches[i], .low = {}, .high = {}});
  return drawn;
}

sheet_chart times_chart(const policy_runs& of) {
  const auto& windows = of.runs.front().series.windows;
  sheet_chart drawn{.title = label_of(of) + ": where a step's time goes", .format = "span", .stacked = true};
  const auto attributed =
      std::array{column::compute, column::cpu_wait, column::network, column::barrier, column::data, column::other};
  for (const auto which : {column::compute, column::exchange, column::data})
    if (!windows.has(column::barrier) && windows.has(which))
      drawn.lines.push_back(
          {.name = name_of(which), .x = windows.of(column::seconds), .y = windows.of(which), .low = {}, .high = {}});
  for (const auto which : attributed)
    if (windows.has(column::barrier) && windows.has(which))
      drawn.lines.push_back(
          {.name = name_of(which), .x = windows.of(column::seconds), .y = windows.of(which), .low = {}, .high = {}});
  return drawn;
}

/// Of the policies that have learned over several runs.
sheet_chart rewards_chart(const comparison& of) {
  sheet_chart drawn{.title = "Mean reward of an episode, mean of the seeds and 95 % interval", .axis = "episode"};
  for (const auto& row : of.rows) {
    sheet_line line{.name = label_of(row.of), .x = {}, .y = {}, .low = {}, .high = {}};
    const auto episodes = row.of.runs.empty() ? 0 : row.of.runs.front().episode_rewards.size();
    for (std::size_t i = 0; i < episodes; ++i) {
      std::vector<double> rewards;
      for (const auto& run : row.of.runs)
        rewards.push_back(i < run.episode_rewards.size() ? run.episode_rewards[i] : absent);
      const auto mean = estimate_of(rewards);
      line.x.push_back(static_cast<double>(i + 1));
      line.y.push_back(mean.mean);
      line.low.push_back(mean.low());
      line.high.push_back(mean.high());
    }
    if (episodes > 0)
      drawn.lines.push_back(std::move(line));
  }
  return drawn;
}

sheet_section section_of(const comparison& of) {
  sheet_section section{
      .heading = of.cluster,
      .paragraphs = {of.path + ", target " + percent(of.target_accuracy) +
                     (of.simulated ? ", simulated" : ", trained on this machine") +
                     ". Mean and 95 % interval over the seeds; a ratio is of mean seconds to the target, below 1 "
                     "where the row is the faster. The courses are the first seed's."},
      .warnings = of.warnings,
      .table = cells_of(of),
      .charts = {seconds_chart(of), accuracy_chart(of), step_chart(of),
                 course_chart(of, column::batch_loss, "Loss of the training batches", false),
                 course_chart(of, column::samples_per_second, "Samples per second", false),
                 course_chart(of, column::global_batch, "Global batch", true)}};
  if (auto verdict = verdict_of(of); !verdict.empty())
    section.paragraphs.insert(section.paragraphs.begin(), std::move(verdict));
  if (!of.best_rival.empty())
    section.paragraphs.push_back("Best rival: " + of.best_rival + ".");
  section.paragraphs.insert(section.paragraphs.end(), of.notes.begin(), of.notes.end());
  if (auto rewards = rewards_chart(of); !rewards.lines.empty())
    section.charts.insert(section.charts.begin(), std::move(rewards));
  for (const auto& row : of.rows)
    if (!row.of.runs.empty()) {
      section.charts.push_back(batches_chart(row.of));
      section.charts.push_back(times_chart(row.of));
    }
  return section;
}

} // namespace

std::vector<sheet_section> sections_of(const std::vector<comparison>& all) {
  std::vector<sheet_section> sections;
  if (const auto cells = closing_cells(all); !cells.empty())
    sections.push_back(
        {.heading = "All clusters", .paragraphs = {"Seconds to the target over those of static."}, .table = cells});
  for (const auto& of : all)
    sections.push_back(section_of(of));
  return sections;
}

std::string to_page(const std::vector<comparison>& all, const std::string& command) {
  return sheet_page("Policies compared", command, sections_of(all));
}

} // namespace dynamix::node
