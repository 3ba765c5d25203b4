#include "node/run_plots.hpp"

#include "node/text.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dynamix::node {
namespace {

constexpr std::size_t workers_as_bars = 24;
constexpr std::size_t heat_map_columns = 300;

/// What the plots are made from.
struct sources {
  const run_records& records;
  const run_summary& summary;
  const run_outcome& outcome;
  const std::vector<plot_mark> marks;

  const window_series& windows() const { return outcome.series.windows; }
  std::vector<double> seconds() const { return windows().of(column::seconds); }
};

plot_line line(std::string name, std::vector<double> x, std::vector<double> y) {
  return {.name = std::move(name), .x = std::move(x), .y = std::move(y), .low = {}, .high = {}};
}

plot empty_plot(std::string title, std::string x_label, std::string y_label) {
  return {.title = std::move(title), .x_label = std::move(x_label), .y_label = std::move(y_label), .lines = {}};
}

/// What was evaluated, against time or samples.
template <class Value>
plot_line evaluations(const sources& from, bool over_samples, std::string name, Value value) {
  plot_line drawn{.name = std::move(name), .x = {}, .y = {}, .low = {}, .high = {}};
  for (const auto& each : from.records.evaluations) {
    drawn.x.push_back(over_samples ? static_cast<double>(each.samples) : each.elapsed_seconds);
    drawn.y.push_back(value(each));
  }
  return drawn;
}

std::string accuracy_plot(const sources& from, bool over_samples) {
  auto drawn = empty_plot(over_samples ? "Accuracy over samples" : "Accuracy over time",
                          over_samples ? "samples" : "seconds", "accuracy, %");
  drawn.lines.push_back(
      evaluations(from, over_samples, "test set", [](const auto& each) { return 100 * each.test_accuracy; }));
  drawn.lines.push_back(line("training batches", from.windows().of(over_samples ? column::samples : column::seconds),
                             from.windows().of(column::batch_accuracy, 100)));
  drawn.y_level = 100 * from.records.file.training.target_accuracy;
  if (!over_samples)
    drawn.marks = from.marks;
  return to_svg(drawn);
}

std::string loss_plot(const sources& from, bool over_samples) {
  auto drawn = empty_plot(over_samples ? "Loss over samples" : "Loss over time", over_samples ? "samples" : "seconds",
                          "mean loss");
  const auto known = [](double loss) { return loss < 1e30 ? loss : std::nan(""); };
  drawn.lines.push_back(
      evaluations(from, over_samples, "test set", [&](const auto& each) { return known(each.test_loss); }));
  drawn.lines.push_back(line("training batches", from.windows().of(over_samples ? column::samples : column::seconds),
                             from.windows().of(column::batch_loss)));
  if (!over_samples)
    drawn.marks = from.marks;
  return to_svg(drawn);
}

std::string global_batch_plot(const sources& from) {
  auto drawn = empty_plot("Global batch and noise scale", "seconds", "samples");
  drawn.log_y = true;
  drawn.lines.push_back(line("global batch", from.seconds(), from.windows().of(column::global_batch)));
  if (from.windows().has(column::noise_scale))
    drawn.lines.push_back(line("gradient noise scale", from.seconds(), from.windows().of(column::noise_scale)));
  drawn.marks = from.marks;
  return to_svg(drawn);
}

std::string throughput_plot(const sources& from) {
  auto drawn = empty_plot("Throughput", "seconds", "samples a second");
  drawn.lines.push_back(line("", from.seconds(), from.windows().of(column::samples_per_second)));
  drawn.marks = from.marks;
  return to_svg(drawn);
}

std::string reward_plot(const sources& from) {
  const bool progress = from.records.file.reward_in_force() == cluster::reward_kind::progress;
  auto drawn = empty_plot("Reward, mean of the workers and their range", "seconds",
                          progress ? "log2(goodput / the best to be had)" : "reward");
  auto reward = line("", from.seconds(), from.windows().of(column::reward));
  reward.low = from.windows().of(column::reward_low);
  reward.high = from.windows().of(column::reward_high);
  drawn.lines.push_back(std::move(reward));
  drawn.marks = from.marks;
  return to_svg(drawn);
}

std::string entropy_plot(const sources& from) {
  auto drawn = empty_plot("Exploration: entropy of the choices", "seconds", "% of that of even odds");
  drawn.lines.push_back(line("", from.seconds(), from.windows().of(column::entropy, 100)));
  drawn.marks = from.marks;
  return to_svg(drawn);
}

/// Numbers of the learner's updates, by version: its clock is the arbitrator's.
std::string divergence_plot(const sources& from) {
  auto drawn = empty_plot("Learning: what an update changed", "policy version", "nats");
  plot_line kl = line("approximate KL", {}, {});
  plot_line entropy = line("entropy", {}, {});
  for (const auto& row : from.records.rows)
    if (const auto* update = std::get_if<ledger::policy_version>(&row.entry);
        update != nullptr && (update->entropy > 0 || update->approximate_kl > 0)) {
      for (auto* each : {&kl, &entropy})
        each->x.push_back(static_cast<double>(update->version));
      kl.y.push_back(update->approximate_kl);
      entropy.y.push_back(update->entropy);
    }
  if (kl.x.empty())
    return "";
  drawn.lines = {std::move(entropy), std::move(kl)};
  drawn.log_y = true;
  return to_svg(drawn);
}

/// Where each worker's steps go, the slowest to compute first where there are many.
std::string worker_bars(const sources& from) {
  auto workers = from.summary.workers;
  const bool many = workers.size() > workers_as_bars;
  if (many) {
    std::ranges::stable_sort(workers, std::greater<>(), &worker_summary::compute_seconds);
    workers.resize(workers_as_bars);
  }
  plot_bars drawn{.title = many ? "Mean step, the " + std::to_string(workers_as_bars) + " slowest to compute"
                                : "Mean step of each worker",
                  .y_label = "milliseconds a step",
                  .groups = {},
                  .parts = {"compute", "exchange and waiting", "data"},
                  .values = {},
                  .low = {},
                  .high = {}};
  for (const auto& worker : workers) {
    drawn.groups.push_back(worker.host);
    drawn.values.push_back({1e3 * worker.compute_seconds, 1e3 * worker.exchange_seconds, 1e3 * worker.data_seconds});
  }
  return to_svg(drawn);
}

/// A number of every worker at every time as colours, by rank: `first` is its place in the course's maps.
std::string worker_map(const sources& from, std::string title, std::size_t first, double factor = 1) {
  const auto windows = from.records.course.maps(); // by their ends
  const auto workers = from.summary.workers.size();
  const auto end = [](const std::vector<double>& row) { return row.front(); };
  heat_map drawn{.title = std::move(title),
                 .x_label = "seconds",
                 .y_label = "rank of the worker",
                 .x_low = 0,
                 .x_high = windows.empty() ? 1 : end(windows.back()),
                 .values = {},
                 .logarithmic = true};
  const auto across = windows.empty() ? std::size_t{0} : heat_map_columns;
  drawn.values.assign(workers, std::vector<double>(across, std::numeric_limits<double>::quiet_NaN()));
  for (std::size_t i = 0; i < across; ++i) {
    const double middle = drawn.x_high * (static_cast<double>(i) + 0.5) / static_cast<double>(across);
    const auto running = std::ranges::lower_bound(windows, middle, {}, end);
    if (running == windows.end())
      continue;
    for (std::size_t rank = 0; rank < workers; ++rank)
      drawn.values[rank][i] = factor * (*running)[first + rank];
  }
  return to_svg(drawn);
}

} // namespace

std::string batches_plot(const run_outcome& outcome, const std::string& title, const std::vector<plot_mark>& marks) {
  auto drawn = empty_plot(title, "seconds", "samples a step");
  drawn.steps = true;
  drawn.log_y = true;
  drawn.marks = marks;
  for (std::size_t i = 0; i < outcome.series.batch_names.size(); ++i)
    drawn.lines.push_back(line(outcome.series.batch_names[i], outcome.series.batch_seconds, outcome.series.batches[i]));
  return to_svg(drawn);
}

std::string step_time_plot(const run_outcome& outcome, const std::string& title, const std::vector<plot_mark>& marks) {
  const auto& windows = outcome.series.windows;
  auto drawn = empty_plot(title, "seconds", "milliseconds a step");
  drawn.stacked = true;
  drawn.marks = marks;
  const auto add = [&](const char* name, column which) {
    if (windows.has(which))
      drawn.lines.push_back(line(name, windows.of(column::seconds), windows.of(which, 1e3)));
  };
  add("compute", column::compute);
  if (windows.has(column::barrier)) {
    add("network", column::network);
    add("waiting for others", column::barrier);
    add("CPU wait", column::cpu_wait);
    add("data", column::data);
    add("other", column::other);
  } else {
    add("exchange and waiting", column::exchange);
    add("data", column::data);
  }
  return to_svg(drawn);
}

std::vector<run_plot> plots_of(const run_records& records, const run_summary& summary, const run_outcome& outcome,
                               const std::vector<run_mark>& marks) {
  const sources from{records, summary, outcome, to_plot_marks(marks)};
  const bool many = summary.workers.size() > run_recorder::workers_drawn;
  std::vector<run_plot> plots = {
      {"Learning", "accuracy-over-time", accuracy_plot(from, false)},
      {"Learning", "accuracy-over-samples", accuracy_plot(from, true)},
      {"Learning", "loss-over-time", loss_plot(from, false)},
      {"Learning", "loss-over-samples", loss_plot(from, true)},
      {"Batch sizes", "batch-sizes",
       batches_plot(outcome, many ? "Batch sizes: highest, median, lowest" : "Batch size of each worker", from.marks)},
      {"Batch sizes", "global-batch", global_batch_plot(from)}};
  if (many)
    plots.push_back({"Batch sizes", "batch-size-map", worker_map(from, "Batch size of each worker", 1)});
  plots.push_back(
      {"Time", "step-time", step_time_plot(outcome, "Where a step's time goes, mean of the workers", from.marks)});
  plots.push_back({"Time", "throughput", throughput_plot(from)});
  plots.push_back({"Time", "workers", worker_bars(from)});
  if (many)
    plots.push_back(
        {"Time", "compute-map", worker_map(from, "Computing time of a step, ms", 1 + summary.workers.size(), 1e3)});
  plots.push_back({"Policy", "reward", reward_plot(from)});
  if (from.windows().has(column::entropy))
    plots.push_back({"Policy", "entropy", entropy_plot(from)});
  if (auto learning = divergence_plot(from); !learning.empty())
    plots.push_back({"Policy", "learning", std::move(learning)});
  return plots;
}

} // namespace dynamix::node
