#include "ledger/run_course.hpp"

#include "ledger/entropy.hpp"
#include "ledger/worker_course.hpp"
#include "messages/loss.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace dynamix::ledger {
namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t worker_history_rows_min = 64;

std::size_t worker_history_rows(std::size_t workers) {
  const auto rows = worker_history_cells / std::max<std::size_t>(workers, 1) / 2 * 2;
  return std::clamp(rows, worker_history_rows_min, history_rows);
}

constexpr double recent_windows = 40;

/// A mean over what is known.
class mean {
public:
  void add(double value) {
    if (std::isnan(value))
      return;
    sum_ += value;
    ++count_;
  }
  double value() const { return count_ == 0 ? unknown : sum_ / static_cast<double>(count_); }

private:
  double sum_ = 0;
  std::size_t count_ = 0;
};

/// Moves an exponential mean; the first values count as a plain mean.
void move(double& estimate, double value, double windows, std::uint64_t seen) {
  if (!std::isnan(value))
    estimate += (value - estimate) / std::min(windows, static_cast<double>(seen));
}

} // namespace

bool is_guarded(const ledger::window& window) {
  return std::ranges::any_of(window.workers, [](const auto& worker) { return !worker.intervention.empty(); });
}

/// By cause where the ledger says so; older ledgers do not.
time_parts parts_of(const ledger::worker& judged) {
  const auto& training = judged.report.training;
  time_parts parts{};
  const auto at = [&](part which) -> double& { return parts[static_cast<std::size_t>(which)]; };
  const auto& time = judged.time;
  if (is_known(time)) {
    at(part::compute) = time.compute_seconds;
    at(part::cpu_wait) = time.cpu_wait_seconds;
    at(part::network) = time.network_seconds;
    at(part::barrier) = time.barrier_seconds;
    at(part::data) = time.data_seconds;
    at(part::other) = time.other_seconds;
    return parts;
  }
  at(part::compute) = training.compute_seconds;
  at(part::exchange) = training.exchange_seconds;
  at(part::data) = training.data_seconds;
  at(part::other) = std::max(0.0, training.iteration_seconds - training.compute_seconds - training.exchange_seconds -
                                      training.data_seconds);
  return parts;
}

double samples_per_second(const messages::training_statistics& training) {
  const double seconds = training.steps * training.iteration_seconds;
  return seconds > 0 ? static_cast<double>(training.samples) / seconds : 0;
}

void recent_means::add(const ledger::window& window) {
  mean telemetry;
  mean stale;
  for (const auto& judged : window.workers) {
    stale.add(judged.stale ? 1 : 0);
    const auto& training = judged.report.training;
    if (const double step_seconds = training.steps * training.iteration_seconds; !judged.stale && step_seconds > 0)
      telemetry.add(judged.report.telemetry_seconds / step_seconds);
  }
  const auto seen = ++windows;
  move(telemetry_share, telemetry.value(), recent_windows, seen);
  move(stale_share, stale.value(), recent_windows, seen);
  move(guarded_share, is_guarded(window) ? 1 : 0, recent_windows, seen);
}

run_course::run_course(std::size_t workers)
    : history_(signal_count, history_rows), batches_(workers, worker_history_rows(workers)),
      work_seconds_(workers, worker_history_rows(workers)), policies_(3, history_rows) {
  newest_.fill(static_cast<float>(unknown));
}

void run_course::add(const ledger::window& window, const std::map<std::string, std::size_t>& rank_of,
                     std::uint64_t epoch_samples) {
  summarise(window, rank_of, epoch_samples);
  history_.add(newest_);
  std::vector<float> batches(batches_.columns(), static_cast<float>(unknown));
  std::vector<float> seconds(batches);
  for (const auto& judged : window.workers) {
    const auto found = rank_of.find(judged.report.host);
    if (judged.stale || found == rank_of.end())
      continue;
    const auto& training = judged.report.training;
    batches[found->second] = static_cast<float>(judged.report.batch);
    if (timed_steps(training) > 0)
      seconds[found->second] = static_cast<float>(training.compute_seconds + training.data_seconds);
  }
  batches_.add(batches);
  work_seconds_.add(seconds);
}

void run_course::add(const ledger::policy_version& policy) {
  const float row[] = {newest(signal::elapsed_seconds), static_cast<float>(policy.entropy),
                       static_cast<float>(policy.approximate_kl)};
  policies_.add(row);
}

/// The newest window as one row of signals.
void run_course::summarise(const ledger::window& window, const std::map<std::string, std::size_t>& rank_of,
                           std::uint64_t epoch_samples) {
  std::array<mean, signal_count> means;
  const auto add = [&](signal which, double value) { means[static_cast<std::size_t>(which)].add(value); };
  double seconds = -1;
  double samples = 0;
  double rate = 0;
  double counted = 0; // samples of all
  double timed = 0;   // of those whose rates are known
  double batch = 0;
  for (const auto& judged : window.workers) {
    add(signal::entropy, entropy_nats(judged.probabilities));
    if (judged.stale || !rank_of.contains(judged.report.host))
      continue;
    const auto& report = judged.report;
    seconds = std::max(seconds, report.elapsed_seconds);
    counted += static_cast<double>(report.training.samples);
    samples = std::max(samples, static_cast<double>(report.epoch) * static_cast<double>(epoch_samples) +
                                    static_cast<double>(report.epoch_samples));
    batch = std::max(batch, static_cast<double>(report.global_batch));
    if (report.batch > 0) { // an empty batch has no accuracy and no loss
      any_accuracy_ = any_accuracy_ || report.training.accuracy > 0;
      add(signal::accuracy, any_accuracy_ ? report.training.accuracy : unknown);
      add(signal::loss, messages::received_loss(report.training.loss));
    }
    add(signal::reward, judged.reward.total);
    add(signal::noise_scale, report.training.gradient_valid ? report.training.noise_scale : unknown);
    const bool error_known = report.training.gradient_valid && report.training.noise_error > 0;
    add(signal::noise_error, error_known ? report.training.noise_error : unknown);
    add(signal::learning_rate, report.training.learning_rate);
    if (timed_steps(report.training) == 0)
      continue;
    rate += samples_per_second(report.training);
    timed += static_cast<double>(report.training.samples);
    add(signal::step_seconds, report.training.iteration_seconds);
    const auto parts = parts_of(judged);
    for (std::size_t i = 0; i < parts.size(); ++i)
      means[static_cast<std::size_t>(signal::compute) + i].add(parts[i]);
  }
  trained_samples_ += counted;
  if (seconds < 0)
    return; // only old reports
  for (std::size_t i = 0; i < signal_count; ++i)
    newest_[i] = static_cast<float>(means[i].value());
  const auto set = [&](signal which, double value) {
    newest_[static_cast<std::size_t>(which)] = static_cast<float>(value);
  };
  if (seconds < reported_seconds_)
    skipped_seconds_ += reported_seconds_ - seconds;
  reported_seconds_ = seconds;
  set(signal::elapsed_seconds, seconds + skipped_seconds_);
  set(signal::samples, epoch_samples > 0 ? samples : trained_samples_);
  set(signal::samples_per_second, timed > 0 ? rate * counted / timed : unknown);
  set(signal::global_batch, batch);
}

double run_course::accuracy_of(const messages::window_report& report) const {
  return any_accuracy_ ? report.training.accuracy : unknown;
}

} // namespace dynamix::ledger
