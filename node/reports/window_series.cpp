#include "node/reports/window_series.hpp"

#include "ledger/entropy.hpp"
#include "messages/loss.hpp"

#include <algorithm>
#include <cmath>

namespace dynamix::node {
namespace {

double& at(window_row& row, column which) {
  return row[static_cast<std::size_t>(which)];
}

struct split_means {
  mean compute, cpu_wait, network, barrier, other;
};

void add_split(const policy::time_split& time, split_means& to) {
  to.compute.add(time.compute_seconds);
  to.cpu_wait.add(time.cpu_wait_seconds);
  to.network.add(time.network_seconds);
  to.barrier.add(time.barrier_seconds);
  to.other.add(time.other_seconds);
}

} // namespace

double entropy_share(const std::vector<float>& probabilities) {
  return ledger::entropy_nats(probabilities) / std::log(static_cast<double>(probabilities.size()));
}

const char* name_of(column which) {
  static constexpr std::array<const char*, columns> names = {
      "seconds",      "samples",     "batch_accuracy", "batch_loss", "samples_per_second",
      "global_batch", "noise_scale", "reward",         "reward_low", "reward_high",
      "entropy",      "guarded",     "compute",        "exchange",   "data",
      "cpu_wait",     "network",     "barrier",        "other"};
  return names[static_cast<std::size_t>(which)];
}

window_row window_columns::add(const policy::judged_window& window) {
  window_row row;
  row.fill(absent);
  mean accuracy, loss, reward, entropy, compute, exchange, data;
  split_means split;
  double samples = 0;
  double window_seconds = 0;
  double batch = 0;
  bool guarded = false;
  for (const auto& worker : window.workers) {
    const auto& report = worker.report;
    const auto& training = report.training;
    batch += report.batch;
    guarded = guarded || !worker.intervention.empty();
    if (worker.probabilities.size() > 1)
      entropy.add(entropy_share(worker.probabilities));
    if (worker.stale) // counted with its own window
      continue;
    const auto weight = static_cast<double>(training.samples);
    samples += weight;
    accuracy.add(training.accuracy, weight);
    // Unknown, or not finite, which the trainer reports as a huge one.
    if (const auto known = messages::received_loss(training.loss); known < 1e30)
      loss.add(known, weight);
    reward.add(worker.reward.total);
    at(row, column::reward_low) = std::fmin(at(row, column::reward_low), worker.reward.total);
    at(row, column::reward_high) = std::fmax(at(row, column::reward_high), worker.reward.total);
    seconds_ = std::max(seconds_, report.elapsed_seconds);
    if (ledger::timed_steps(training) == 0)
      continue;
    compute.add(training.compute_seconds);
    exchange.add(training.exchange_seconds);
    data.add(training.data_seconds);
    if (is_known(worker.time))
      add_split(worker.time, split);
    window_seconds = std::max(window_seconds, training.steps * training.iteration_seconds);
  }
  samples_ += samples;
  at(row, column::seconds) = seconds_;
  at(row, column::samples) = samples_;
  at(row, column::batch_accuracy) = accuracy.value();
  at(row, column::batch_loss) = loss.value();
  at(row, column::samples_per_second) = window_seconds > 0 ? samples / window_seconds : absent;
  at(row, column::global_batch) = batch;
  at(row, column::noise_scale) = window.predicted.noise_scale >= 0 ? window.predicted.noise_scale : absent;
  at(row, column::reward) = reward.value();
  at(row, column::entropy) = entropy.value();
  at(row, column::guarded) = guarded ? 1 : 0;
  at(row, column::compute) = compute.value();
  at(row, column::exchange) = exchange.value();
  at(row, column::data) = data.value();
  if (split.compute.weight > 0) {
    at(row, column::compute) = split.compute.value();
    at(row, column::cpu_wait) = split.cpu_wait.value();
    at(row, column::network) = split.network.value();
    at(row, column::barrier) = split.barrier.value();
    at(row, column::other) = split.other.value();
  }
  return row;
}

std::vector<double> window_series::of(column which, double factor) const {
  std::vector<double> values;
  for (const auto& row : rows)
    values.push_back(factor * row[static_cast<std::size_t>(which)]);
  return values;
}

bool window_series::has(column which) const {
  return std::ranges::any_of(rows,
                             [&](const auto& row) { return std::isfinite(row[static_cast<std::size_t>(which)]); });
}

} // namespace dynamix::node
