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

/// The shortest time in which a worker of the window was blocked: the slowest one waits for nobody.
double blocked_seconds(const ledger::window& window) {
  double shortest = std::numeric_limits<double>::infinity();
  for (const auto& worker : window.workers)
    if (!worker.stale)
      shortest =
          std::min(shortest, worker.report.training.iteration_seconds - policy::computing_seconds(worker.report));
  return std::isfinite(shortest) ? std::max(0.0, shortest) : -1;
}

} // namespace

void equal_batches::add(const ledger::window& window) {
  newest_ = {};
  for (const auto& worker : window.workers)
    if (!worker.stale && (tables_.size() < workers_max || tables_.contains(worker.report.host)))
      tables_[worker.report.host].measure(worker.report.batch, policy::computing_seconds(worker.report),
                                          worker.report.balance.pace_change);
  if (const double blocked = blocked_seconds(window); blocked >= 0)
    exchange_seconds_ =
        exchange_seconds_ < 0 ? blocked : exchange_seconds_ + exchange_weight * (blocked - exchange_seconds_);
  batch_gain found{.follows_noise = policy_ == "ppo" || policy_ == "goodput" || policy_ == "stigmergic"};
  std::uint64_t running = 0;
  for (const auto& worker : window.workers) {
    running += worker.report.batch;
    found.total += window.decided ? worker.decided_batch : worker.report.batch;
  }
  const double equal =
      static_cast<double>(running) / static_cast<double>(std::max<std::size_t>(1, window.workers.size()));
  double now = 0;
  double longest = 0;
  double shortest = std::numeric_limits<double>::infinity();
  for (const auto& worker : window.workers) {
    const auto table = tables_.find(worker.report.host);
    if (table == tables_.end() || table->second.curve().empty())
      return;
    const auto& curve = table->second.curve();
    if (worker.report.batch > 0)
      now = std::max(now, curve.seconds(worker.report.batch));
    const double seconds = curve.seconds(equal);
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
  if (window.workers.size() < 2 || !(now > 0) || !(shortest > 0))
    return;
  const double exchange = std::max(0.0, exchange_seconds_);
  found.gain = (longest + exchange) / (now + exchange);
  found.times_slower = longest / shortest;
  newest_ = found;
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
