#include "policy/balancer.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace dynamix::policy {
namespace {

constexpr double longest_shift = 0.35;   ///< of the logarithm of a step's seconds, at once
constexpr double shift_gain = 0.5;       ///< of Newton's step
constexpr double slope_floor = 0.5;      ///< of the goodput's derivative
constexpr double noticed_change = 0.05;  ///< of the global batch, below which it stays
constexpr double log_change_most = 13.8; ///< a factor of a million

} // namespace

void balancer::measure(double samples, double compute_seconds) {
  pace_.measure(samples, compute_seconds);
}

void balancer::end_step(double step_seconds) {
  exchange_.measure(running_.slowest_seconds, step_seconds);
  running_ = next_;
}

void balancer::follow(const balanced_step& next) {
  next_ = {.total = std::accumulate(next.batches.begin(), next.batches.end(), 0.0),
           .slowest_seconds = next.slowest_seconds,
           .held_seconds = next.held_seconds,
           .supply = next.supply,
           .full = next.full};
}

std::uint64_t balancer::propose(double noise_scale, std::uint64_t least) const {
  const auto [total, slowest, held, supply, full] = next_;
  if (!(slowest > 0) || !(noise_scale > 0))
    return 0;
  if (!(supply > 0)) // all are held by a bound, and who is slow has more than its share
    return full ? static_cast<std::uint64_t>(std::max(total * std::exp(-longest_shift), static_cast<double>(least)))
                : 0;
  const double per_second = supply * slowest;
  const double worth = per_second * noise_scale / (total * (noise_scale + total));
  const double urge = std::log(std::max(worth, 1e-6) / exchange_.elasticity(slowest));
  const double slope = per_second / total * (1 + total / (noise_scale + total)) - 1;
  const double at_least =
      std::log(std::max(1 + (static_cast<double>(least) - total) / per_second, std::exp(-longest_shift)));
  const double wanted =
      std::max({shift_gain * urge / std::max(slope, slope_floor), at_least, std::log(std::max(held, 1e-9) / slowest)});
  const double next = total + per_second * (std::exp(std::clamp(wanted, -longest_shift, longest_shift)) - 1);
  if (!(std::abs(next - total) > noticed_change * total))
    return 0;
  return static_cast<std::uint64_t>(std::clamp(next, 1.0, static_cast<double>(messages::max_global_batch)));
}

void balancer::count(std::uint32_t batch, bool moved) {
  statistics_.moves += moved ? 1 : 0;
  statistics_.moved_samples += static_cast<double>(batch) - reported_batch_.value_or(batch);
}

messages::balance_statistics balancer::take_statistics(std::uint32_t batch) {
  reported_batch_ = batch;
  auto taken = std::exchange(statistics_, {});
  taken.changes = static_cast<std::uint32_t>(pace_.changes() - changes_before_);
  taken.newest_change = taken.changes > 0 ? pace_.newest_change() : 0;
  changes_before_ = pace_.changes();
  if (pace_before_)
    taken.pace_change = std::exp(std::clamp(pace_.pace() - *pace_before_, -log_change_most, log_change_most));
  if (pace_.measured())
    pace_before_ = pace_.pace();
  return taken;
}

} // namespace dynamix::policy
