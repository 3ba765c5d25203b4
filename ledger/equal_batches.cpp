#include "ledger/equal_batches.hpp"

#include "ledger/text.hpp"
#include "policy/bounded.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dynamix::ledger {
namespace {

constexpr double exchange_weight = 0.1; ///< of a window, in the mean
constexpr double about_equal = 1.05;    ///< ratio below which two figures count as the same
constexpr double near_noise = 2;        ///< the global batch over the noise scale, either way

int eighth_of(double batch) {
  return static_cast<int>(std::lround(8 * std::log2(batch)));
}

/// The shortest time in which a worker of the window was blocked: the slowest one waits for nobody.
double blocked_seconds(const ledger::window& window) {
  double shortest = std::numeric_limits<double>::infinity();
  for (const auto& worker : window.workers)
    if (!worker.stale && worker.report.training.iteration_seconds > 0)
      shortest =
          std::min(shortest, worker.report.training.iteration_seconds - policy::computing_seconds(worker.report));
  return std::isfinite(shortest) ? std::max(0.0, shortest) : -1;
}

} // namespace

void equal_batches::add(const ledger::window& window) {
  newest_ = {};
  for (const auto& worker : window.workers)
    if (!worker.stale && worker.report.training.iteration_seconds > 0 &&
        (hosts_.size() < workers_max || hosts_.contains(worker.report.host)))
      hosts_[worker.report.host].measure(worker.report);
  if (const double blocked = blocked_seconds(window); blocked >= 0)
    exchange_seconds_ =
        exchange_seconds_ < 0 ? blocked : exchange_seconds_ + exchange_weight * (blocked - exchange_seconds_);
  if (window.workers.size() > 1)
    newest_ = compare(window);
}

void equal_batches::measured_host::measure(const messages::window_report& report) {
  table.measure(report.batch, policy::computing_seconds(report), report.balance.pace_change);
  if (report.batch == 0)
    return;
  auto& mean = seen[eighth_of(report.batch)];
  mean.seconds += (policy::computing_seconds(report) - mean.seconds) / ++mean.windows;
  lowest = std::min(lowest, report.batch);
  highest = std::max(highest, report.batch);
}

/// A batch takes no longer than a larger one, nor than in proportion to a smaller one.
double equal_batches::measured_host::cautious_seconds(double batch) const {
  double least = seconds(batch);
  for (const auto& [eighth, mean] : seen)
    least = std::min(least, mean.seconds * std::max(1.0, batch / std::exp2(eighth / 8.0)));
  return least;
}

const equal_batches::measured_host* equal_batches::find(const std::string& name) const {
  const auto found = hosts_.find(name);
  return found == hosts_.end() || found->second.table.curve().empty() ? nullptr : &found->second;
}

/// The fastest of those that have run such a batch; null where nobody has.
const equal_batches::measured_host* equal_batches::reference(const ledger::window& window, double batch) const {
  const measured_host* best = nullptr;
  for (const auto& worker : window.workers)
    if (const auto* host = find(worker.report.host); host != nullptr && host->has_run(batch))
      if (best == nullptr || host->seconds(batch) < best->seconds(batch))
        best = host;
  return best;
}

batch_gain equal_batches::compare(const ledger::window& window) const {
  batch_gain found{.follows_noise = policy_ == "ppo" || policy_ == "goodput" || policy_ == "stigmergic"};
  std::uint64_t running = 0;
  for (const auto& worker : window.workers) {
    running += worker.report.batch;
    found.total += window.decided ? worker.decided_batch : worker.report.batch;
  }
  const auto equal = static_cast<double>(running) / static_cast<double>(window.workers.size());
  const auto* shape = reference(window, equal);
  double now = 0;
  double longest = 0;
  double shortest = std::numeric_limits<double>::infinity();
  for (const auto& worker : window.workers) {
    const auto* host = find(worker.report.host);
    if (host == nullptr || shape == nullptr || worker.report.batch == 0)
      return {};
    const double seconds_now = host->cautious_seconds(worker.report.batch);
    double seconds = host->cautious_seconds(equal);
    if (!host->has_run(equal)) { // as much slower as at the batch nearest to it that both have run
      const double both = std::clamp<double>(equal, host->lowest, host->highest);
      seconds = std::min(seconds, shape->seconds(equal) * host->seconds(both) / shape->seconds(both));
    }
    now = std::max(now, seconds_now);
    if (seconds > longest) {
      longest = seconds;
      found.slowest = worker.report.host;
      found.slowest_batch = window.decided ? worker.decided_batch : worker.report.batch;
    }
    if (seconds < shortest) {
      shortest = seconds;
      found.fastest = worker.report.host;
    }
    if (!worker.stale && worker.report.training.gradient_valid)
      found.noise_scale = worker.report.training.noise_scale;
  }
  const double exchange = std::max(0.0, exchange_seconds_);
  found.gain = (longest + exchange) / (now + exchange);
  found.times_slower = longest / shortest;
  return found;
}

std::string headline(const batch_gain& gain) {
  if (gain.gain <= 0)
    return "";
  if (gain.gain < about_equal && gain.gain > 1 / about_equal)
    return "About as many samples per second as with equal batches (estimated)";
  return fixed(gain.gain, gain.gain < 9.95 ? 1 : 0) + " times the samples per second of equal batches (estimated)";
}

std::string because(const batch_gain& gain) {
  if (gain.gain <= 0)
    return "";
  const auto total = grouped(gain.total);
  std::string text = "all workers compute at about the same speed";
  if (gain.times_slower >= about_equal)
    text = gain.slowest + " computes " + fixed(gain.times_slower, gain.times_slower < 9.95 ? 1 : 0) +
           " times slower than " + gain.fastest + ", and gets " + grouped(gain.slowest_batch) + " of " + total +
           " samples";
  if (!gain.follows_noise || gain.noise_scale < 0)
    return text;
  const auto noise = grouped(static_cast<std::uint64_t>(std::llround(std::min(gain.noise_scale, 1e15))));
  const double ratio = static_cast<double>(gain.total) / std::max(gain.noise_scale, 1.0);
  if (ratio > near_noise || ratio < 1 / near_noise)
    return text + "; the global batch is " + total + ", and the gradient noise scale " + noise;
  return text + "; the global batch is " + total + " because the gradient noise scale is " + noise;
}

} // namespace dynamix::ledger
