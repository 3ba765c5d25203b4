#include "ledger/progress.hpp"

#include "ledger/text.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

namespace dynamix::ledger {
namespace {

constexpr std::size_t progress_windows = 20;
constexpr std::size_t recent_evaluations = 6;
/// Of the fitted power: the time to the target lay in the range 7 to 8 times of 10 in 66 runs (benchmarks/results).
constexpr double standard_errors = 3;
constexpr std::size_t workers_named = 8;

/// "batch ada 164 ben 139", or of many workers "batch 10 to 404".
std::string batches_text(const std::vector<std::pair<std::string, std::uint32_t>>& batches) {
  std::string text = "  batch";
  if (batches.size() > workers_named) {
    const auto [low, high] = std::ranges::minmax(batches, {}, &std::pair<std::string, std::uint32_t>::second);
    return text + " " + std::to_string(low.second) + " to " + std::to_string(high.second);
  }
  for (const auto& [host, batch] : batches)
    text += " " + host + " " + std::to_string(batch);
  return text;
}

std::string eta_text(const progress& now) {
  const bool earlier = now.target_accuracy() > 0;
  std::string text = "  ETA " + std::string(earlier ? "at most " : "") + duration(now.eta_seconds());
  if (const auto target = now.time_to_target()) {
    const auto soonest = duration(target->soonest_seconds);
    const auto latest = target->latest_seconds ? duration(*target->latest_seconds) : std::string();
    text += ", " + percent(now.target_accuracy(), 1) + " in " +
            (latest.empty()      ? soonest + " or more"
             : latest == soonest ? "about " + latest
                                 : soonest + " to " + latest);
  }
  return text;
}

/// Least squares of log(error) over log(samples).
struct fitted_line {
  double mean_x = 0;
  double mean_y = 0;
  double slope = 0;
  double slope_error = 0; ///< standard error
};
template <class Points>
fitted_line fit_line(const Points& points) {
  const auto x = [](const auto& each) { return std::log(std::max(each.samples, 1.0)); };
  const auto y = [](const auto& each) { return std::log(std::max(each.error, 1e-9)); };
  const auto count = static_cast<double>(points.size());
  fitted_line line;
  for (const auto& each : points) {
    line.mean_x += x(each) / count;
    line.mean_y += y(each) / count;
  }
  double xx = 0, xy = 0, residual = 0;
  for (const auto& each : points) {
    xx += (x(each) - line.mean_x) * (x(each) - line.mean_x);
    xy += (x(each) - line.mean_x) * (y(each) - line.mean_y);
  }
  line.slope = xy / xx;
  for (const auto& each : points)
    residual += std::pow(y(each) - line.mean_y - line.slope * (x(each) - line.mean_x), 2);
  line.slope_error = std::sqrt(residual / (count - 2) / xx);
  return line;
}

} // namespace

void progress::add(const ledger::row& row) {
  if (const auto* start = std::get_if<ledger::start>(&row.entry)) {
    const double counted = start->dataset_samples == 0 ? samples_done_ : 0;
    *this = {}; // a resumed run steps back to its checkpoint
    start_ = *start;
    samples_done_ = counted; // by the leader before, where only its windows tell them
  } else if (const auto* window = std::get_if<ledger::window>(&row.entry)) {
    add_window(*window);
  } else if (std::holds_alternative<ledger::generation>(row.entry)) {
    formed_ = true;
  } else if (const auto* evaluation = std::get_if<ledger::evaluation>(&row.entry)) {
    test_accuracy_ = evaluation->report.test_accuracy;
    evaluations_.push_back({static_cast<double>(evaluation->report.samples), 1 - *test_accuracy_});
    if (evaluations_.size() > recent_evaluations)
      evaluations_.pop_front();
  } else if (const auto* event = std::get_if<ledger::event>(&row.entry)) {
    note(*event);
  }
}

void progress::note(const ledger::event& event) {
  switch (event.event) {
  case event_kind::joined:
  case event_kind::rejoined:
    if (here_.size() < start_.workers.size() || here_.contains(event.host))
      here_.insert(event.host);
    return;
  case event_kind::resumed:
    stepped_ = true; // a generation's first step is told so
    return;
  case event_kind::lost:
  case event_kind::left:
    here_.erase(event.host);
    break;
  case event_kind::refused:
  case event_kind::restarted:
  case event_kind::warning:
    break;
  default:
    return;
  }
  trouble_ = fmt::format("{}{}{}{}{}", event.host, event.host.empty() ? "" : " ", messages::name_of(event.event),
                         event.text.empty() ? "" : ": ", event.text);
}

std::string progress::waiting() const {
  const auto workers = start_.workers.size();
  std::string text;
  if (workers == 0) {
    text = "waiting for the arbitrator";
  } else if (stepped_) {
    text = "training the first window";
  } else if (formed_) {
    text = "the workers load data and connect to each other";
  } else {
    std::vector<std::string> missing;
    for (const auto& worker : start_.workers)
      if (!here_.contains(worker))
        missing.push_back(worker);
    text =
        fmt::format("waiting for workers: {} of {} {} here", here_.size(), workers, here_.size() == 1 ? "is" : "are");
    if (!here_.empty() && !missing.empty() && missing.size() <= workers_named)
      text += fmt::format(", {} {} missing", listed(missing), missing.size() == 1 ? "is" : "are");
  }
  return text + (trouble_.empty() ? "" : "  (" + printable(trouble_, 160) + ")");
}

void progress::add_window(const ledger::window& window) {
  double correct = 0;
  double samples = 0;
  double elapsed = 0; // of who has trained longest: members that have come later count from their own start
  batches_.clear();
  for (const auto& worker : window.workers) {
    const auto& report = worker.report;
    batches_.emplace_back(report.host, report.batch);
    elapsed = std::max(elapsed, report.elapsed_seconds);
    if (worker.stale || !counted_.count(report))
      continue;
    correct += report.training.accuracy * static_cast<double>(report.training.samples);
    samples += static_cast<double>(report.training.samples);
    epoch_ = report.epoch;
    if (start_.dataset_samples > 0)
      samples_done_ = static_cast<double>(report.epoch) * static_cast<double>(start_.dataset_samples) +
                      static_cast<double>(report.epoch_samples);
  }
  window_ = window.key.window;
  if (start_.dataset_samples == 0) // only the training processes know their data
    samples_done_ += samples;
  if (samples == 0)
    return;
  batch_accuracy_ = correct / samples;
  elapsed_seconds_ = elapsed;
  if (!recent_.empty() && elapsed < recent_.back().seconds)
    recent_.clear(); // who had trained longest is gone
  recent_.push_back({elapsed_seconds_, samples_done_});
  if (recent_.size() > progress_windows)
    recent_.pop_front();
}

double progress::samples_per_second() const {
  if (recent_.size() == 1 && window_ == 1 && elapsed_seconds_ > 0)
    return samples_done_ / elapsed_seconds_;
  if (recent_.size() < 2 || recent_.back().seconds <= recent_.front().seconds)
    return 0;
  return std::max(0.0, (recent_.back().samples - recent_.front().samples) /
                           (recent_.back().seconds - recent_.front().seconds));
}

double progress::eta_seconds() const {
  const double speed = samples_per_second();
  return speed > 0 && samples_planned() > 0 ? std::max(0.0, samples_planned() - samples_done_) / speed : -1;
}

std::optional<progress::target_eta> progress::time_to_target() const {
  const double speed = samples_per_second();
  const auto error = std::log(1 - start_.target_accuracy);
  if (start_.target_accuracy <= 0 || start_.target_accuracy >= 1 || speed <= 0 || evaluations_.size() < 3)
    return std::nullopt;
  const auto line = fit_line(evaluations_);
  const double slowest = line.slope + standard_errors * line.slope_error;
  if (!(slowest < 0))
    return std::nullopt;
  const double last = evaluations_.back().samples;
  const double interval = last - evaluations_[evaluations_.size() - 2].samples;
  // Where the line of this slope through the evaluations' middle comes to the target's error, and an evaluation tells.
  const auto seconds_at = [&](double slope) -> std::optional<double> {
    double wanted = std::exp(line.mean_x + (error - line.mean_y) / slope);
    if (interval > 0)
      wanted = last + interval * std::max(1.0, std::ceil((wanted - last) / interval));
    return wanted <= samples_planned() ? std::optional(std::max(0.0, wanted - samples_done_) / speed) : std::nullopt;
  };
  const auto soonest = seconds_at(line.slope);
  return soonest ? std::optional(target_eta{*soonest, seconds_at(slowest)}) : std::nullopt;
}

namespace {

/// Of training whose end only its own program knows, as does whether it has an accuracy.
std::string open_progress_line(const progress& now) {
  std::string line = fmt::format("epoch {}  {} samples  {} samples/s", now.epoch() + 1,
                                 grouped(static_cast<std::uint64_t>(now.samples_done())),
                                 grouped(static_cast<std::uint64_t>(now.samples_per_second())));
  if (now.test_accuracy().value_or(0) > 0)
    line += "  test accuracy " + percent(*now.test_accuracy(), 1);
  else if (now.batch_accuracy() > 0)
    line += "  batch accuracy " + percent(now.batch_accuracy(), 1);
  return line + batches_text(now.batches());
}

} // namespace

std::string progress_line(const progress& now) {
  if (!now.training())
    return now.waiting();
  if (now.samples_per_epoch() == 0)
    return open_progress_line(now);
  const double planned = std::max(now.samples_planned(), 1.0);
  const double share = std::min(1.0, now.samples_done() / planned);
  const double epochs = std::ceil(planned / std::max(1.0, now.samples_per_epoch()));
  const double epoch = std::min(epochs, std::floor(now.samples_done() / std::max(1.0, now.samples_per_epoch())) + 1);
  std::string line = "epoch " + fixed(epoch, 0) + "/" + fixed(epochs, 0) + "  " + percent(share, 0) + "  " +
                     grouped(static_cast<std::uint64_t>(now.samples_per_second())) + " samples/s  ";
  line += now.test_accuracy() ? "test accuracy " + percent(*now.test_accuracy(), 1)
                              : "batch accuracy " + percent(now.batch_accuracy(), 1);
  return line + eta_text(now) + batches_text(now.batches());
}

} // namespace dynamix::ledger
