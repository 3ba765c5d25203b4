#include "policy/attribution.hpp"

#include <algorithm>
#include <limits>

namespace dynamix::policy {
namespace {

double waiting_share(const messages::system_statistics& system) {
  if (system.training_valid)
    return system.training_wait_ratio;
  return system.valid ? system.run_queue_wait_ratio : 0;
}

double blocked_seconds(const messages::window_report& report) {
  return report.network.valid ? report.network.sender_blocked_ratio * report.training.iteration_seconds : 0;
}

/// What a step's exchange takes without waiting for anybody, and how much of it blocked senders explain.
struct exchange_floor {
  double seconds = 0;
  double blocked_seconds = 0;
};

exchange_floor floor_of(const messages::shard_report& shard) {
  exchange_floor floor{.seconds = std::numeric_limits<double>::infinity()};
  for (const auto& report : shard.reports) {
    if (report.window != shard.window || !(report.training.iteration_seconds > 0))
      continue;
    floor.seconds = std::min(floor.seconds, report.training.exchange_seconds);
    floor.blocked_seconds = std::max(floor.blocked_seconds, blocked_seconds(report));
  }
  floor.blocked_seconds = std::min(floor.blocked_seconds, floor.seconds);
  return floor;
}

time_split split(const messages::window_report& report, const exchange_floor& floor) {
  const auto& training = report.training;
  const double total = training.iteration_seconds;
  if (!(total > 0))
    return {};
  // Clocks are read at slightly different moments, so the parts may add up to more than the whole by a hair.
  const double parts = training.compute_seconds + training.exchange_seconds + training.data_seconds;
  const double scale = parts > total ? total / parts : 1;
  const double compute = scale * training.compute_seconds;
  const double exchange = scale * training.exchange_seconds;

  time_split result;
  result.cpu_wait_seconds = std::min(compute, waiting_share(report.system) * total);
  result.compute_seconds = compute - result.cpu_wait_seconds;
  const double unexplained = floor.seconds - floor.blocked_seconds;
  result.network_seconds = std::min(exchange, unexplained + std::min(floor.blocked_seconds, blocked_seconds(report)));
  result.barrier_seconds = exchange - result.network_seconds;
  result.data_seconds = scale * training.data_seconds;
  result.other_seconds = std::max(0.0, total - scale * parts);
  return result;
}

} // namespace

std::vector<time_split> attribute(const messages::shard_report& shard) {
  const auto floor = floor_of(shard);
  std::vector<time_split> result;
  for (const auto& report : shard.reports)
    result.push_back(split(report, floor));
  return result;
}

} // namespace dynamix::policy
