#include "dashboard/live_run.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dynamix::dashboard {
namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
constexpr double recent_windows = 40;
constexpr double slow_windows = 100;

/// Nats; NaN where there are no odds to speak of.
double entropy_of(const std::vector<float>& probabilities) {
  if (probabilities.size() < 2)
    return unknown;
  double entropy = 0;
  for (const double each : probabilities)
    entropy -= each > 0 ? each * std::log(each) : 0;
  return entropy;
}

/// By cause where the ledger says so; older ledgers do not.
time_parts parts_of(const ledger::worker& judged) {
  const auto& training = judged.report.training;
  time_parts parts{};
  const auto at = [&](part which) -> double& { return parts[static_cast<std::size_t>(which)]; };
  const auto& time = judged.time;
  if (time.compute_seconds + time.network_seconds + time.barrier_seconds + time.cpu_wait_seconds > 0) {
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

void live_run::take(const ledger::window& window) {
  window_ = window.key.window;
  term_ = window.key.term;
  policy_version_ = window.policy_version;
  generation_ = std::max(generation_, window.generation);
  ++totals_.windows;
  totals_.gather.add(window.gather_seconds);
  totals_.decide.add(window.decide_seconds);
  if (window.decided)
    totals_.decisions += window.workers.size();
  totals_.intervened_windows +=
      std::ranges::any_of(window.workers, [](const auto& worker) { return !worker.intervention.empty(); }) ? 1 : 0;
  for (const auto& judged : window.workers)
    take(judged);
  summarise(window);
  keep_history(window);
}

void live_run::take(const ledger::worker& judged) {
  auto* worker = find(judged.report.host);
  if (worker == nullptr)
    return;
  worker->stale = judged.stale;
  worker->decided_batch = judged.decided_batch;
  worker->intervention = judged.intervention.substr(0, text_bytes_kept);
  if (judged.stale) {
    ++worker->stale_reports;
    return;
  }
  const auto& training = judged.report.training;
  const double seconds = training.steps * training.iteration_seconds;
  worker->reported = true;
  worker->state = worker_state::training; // also where a new arbitrator took the generation over as it is
  worker->report = judged.report;
  worker->parts = parts_of(judged);
  worker->samples_per_second = seconds > 0 ? static_cast<double>(training.samples) / seconds : 0;
  worker->reward = judged.reward.total;
  worker->samples += training.samples;
  worker->retransmissions += judged.report.network.retransmissions;
  worker->training_seconds += seconds;
  worker->telemetry_seconds += judged.report.telemetry_seconds;
  worker->control_seconds += judged.report.control_seconds;
  totals_.samples += training.samples;
  const bool room = worker->batch_lowest < worker->batch_highest;
  const bool at_bound = judged.report.batch == worker->batch_lowest || judged.report.batch == worker->batch_highest;
  worker->windows_at_bound = room && at_bound ? worker->windows_at_bound + 1 : 0;
}

/// The newest window as one row of signals.
void live_run::summarise(const ledger::window& window) {
  std::array<mean, signal_count> means;
  const auto add = [&](signal which, double value) { means[static_cast<std::size_t>(which)].add(value); };
  double seconds = -1;
  double samples = 0;
  double samples_per_second = 0;
  double batch = 0;
  for (const auto& judged : window.workers) {
    add(signal::entropy, entropy_of(judged.probabilities));
    const auto* worker = find(judged.report.host);
    if (judged.stale || worker == nullptr)
      continue;
    const auto& report = judged.report;
    seconds = std::max(seconds, report.elapsed_seconds);
    samples = std::max(samples, static_cast<double>(report.epoch) * static_cast<double>(start_.dataset_samples) +
                                    static_cast<double>(report.epoch_samples));
    samples_per_second += worker->samples_per_second;
    batch = std::max(batch, static_cast<double>(report.global_batch));
    if (report.batch > 0) { // an empty batch has no accuracy and no loss
      add(signal::accuracy, report.training.accuracy);
      add(signal::loss, report.training.loss);
    }
    add(signal::step_seconds, report.training.iteration_seconds);
    add(signal::reward, judged.reward.total);
    add(signal::noise_scale, report.training.gradient_valid ? report.training.noise_scale : unknown);
    add(signal::learning_rate, report.training.learning_rate);
    for (std::size_t i = 0; i < worker->parts.size(); ++i)
      means[static_cast<std::size_t>(signal::compute) + i].add(worker->parts[i]);
  }
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
  set(signal::samples, samples);
  set(signal::samples_per_second, samples_per_second);
  set(signal::global_batch, batch);
}

void live_run::keep_history(const ledger::window& window) {
  history_.add(newest_);
  std::vector<float> batches(batches_.columns(), static_cast<float>(unknown));
  std::vector<float> seconds(batches);
  mean telemetry;
  mean stale;
  for (const auto& judged : window.workers) {
    stale.add(judged.stale ? 1 : 0);
    const auto found = rank_of_.find(judged.report.host);
    if (judged.stale || found == rank_of_.end())
      continue;
    const auto& training = judged.report.training;
    batches[found->second] = static_cast<float>(judged.report.batch);
    seconds[found->second] = static_cast<float>(training.compute_seconds + training.data_seconds);
    if (training.steps * training.iteration_seconds > 0)
      telemetry.add(judged.report.telemetry_seconds / (training.steps * training.iteration_seconds));
  }
  batches_.add(batches);
  work_seconds_.add(seconds);
  const auto seen = ++recent_.windows;
  const bool guarded =
      std::ranges::any_of(window.workers, [](const auto& worker) { return !worker.intervention.empty(); });
  move(recent_.telemetry_share, telemetry.value(), recent_windows, seen);
  move(recent_.stale_share, stale.value(), recent_windows, seen);
  move(recent_.guarded_share, guarded ? 1 : 0, recent_windows, seen);
  move(recent_.reward, newest(signal::reward), recent_windows, seen);
  move(recent_.slow_reward, newest(signal::reward), slow_windows, seen);
  if (seen == static_cast<std::uint64_t>(slow_windows) ||
      (seen > static_cast<std::uint64_t>(slow_windows) && recent_.slow_reward > recent_.best_reward))
    recent_.best_reward = recent_.slow_reward;
}

} // namespace dynamix::dashboard
