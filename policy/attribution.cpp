#include "policy/attribution.hpp"

#include "policy/bounded.hpp"

#include <algorithm>
#include <limits>

namespace dynamix::policy {
namespace {

/// A worker's step in seconds.
struct step_parts {
  double total = 0;
  double compute = 0;
  double waiting = 0; ///< of compute, for a CPU
  double exchange = 0;
  double exchange_waiting = 0; ///< of exchange, for a CPU
  double data = 0;
  double blocked = 0; ///< with gradients sent that the network had not delivered; may be hidden behind compute

  double clear_exchange() const { return exchange - exchange_waiting; }
};

step_parts parts_of(const messages::window_report& report) {
  const auto& training = report.training;
  const auto& system = report.system;
  const auto in_range = [](double seconds) { return bounded(seconds, 0, messages::max_seconds); };
  const auto ratio = [](double share) { return bounded(share, 0, messages::max_ratio); };
  step_parts parts{.total = in_range(training.iteration_seconds)};
  if (!(parts.total > 0))
    return {};
  parts.compute = in_range(training.compute_seconds);
  parts.exchange = in_range(training.exchange_seconds);
  parts.data = in_range(training.data_seconds);
  // Clocks are read at slightly different moments, so the parts may add up to more than the whole by a hair.
  const double sum = parts.compute + parts.exchange + parts.data;
  const double scale = sum > parts.total ? parts.total / sum : 1;
  parts.compute *= scale;
  parts.exchange *= scale;
  parts.data *= scale;
  const double all = system.valid ? ratio(system.run_queue_wait_ratio) : 0;
  const double own = system.training_valid ? ratio(system.training_wait_ratio) : all;
  const double busy = system.training_valid ? bounded(system.training_cpu_ratio, 0, 1)
                      : system.valid        ? bounded(system.cpu_time_ratio, 0, 1)
                                            : 0;
  // It can have waited in computing for no longer than for its part of the time in which it had something to do.
  if (own > 0)
    parts.waiting = std::min(own * parts.total, parts.compute * own / (own + busy));
  const double elsewhere = system.training_valid ? own * parts.total - parts.waiting : 0;
  parts.exchange_waiting = std::min(parts.exchange, std::max(0.0, all - own) * parts.total + elsewhere);
  if (report.network.valid)
    parts.blocked = ratio(report.network.sender_blocked_ratio) * parts.total;
  return parts;
}

/// What a step's exchange takes without waiting for anybody, and the longest that a sender was blocked.
struct exchange_floor {
  double seconds = std::numeric_limits<double>::infinity();
  double most_blocked = 0;
};

time_split split(const step_parts& parts, const exchange_floor& floor) {
  if (!(parts.total > 0))
    return {};
  const double explained = std::min(floor.seconds, floor.most_blocked);
  const double share = floor.most_blocked > 0 ? std::min(1.0, parts.blocked / floor.most_blocked) : 1;
  time_split result;
  result.cpu_wait_seconds = parts.waiting + parts.exchange_waiting;
  result.compute_seconds = parts.compute - parts.waiting;
  result.network_seconds = std::min(parts.clear_exchange(), floor.seconds - explained + explained * share);
  result.barrier_seconds = parts.clear_exchange() - result.network_seconds;
  result.data_seconds = parts.data;
  result.other_seconds = std::max(0.0, parts.total - parts.compute - parts.exchange - parts.data);
  return result;
}

} // namespace

std::vector<time_split> attribute(const messages::shard_report& shard) {
  std::vector<step_parts> workers;
  exchange_floor floor;
  for (const auto& report : shard.reports) {
    const auto& parts = workers.emplace_back(parts_of(report));
    if (report.window != shard.window || !(parts.total > 0))
      continue;
    floor.seconds = std::min(floor.seconds, parts.clear_exchange());
    floor.most_blocked = std::max(floor.most_blocked, parts.blocked);
  }
  std::vector<time_split> result;
  for (const auto& parts : workers)
    result.push_back(split(parts, floor));
  return result;
}

} // namespace dynamix::policy
