#include "simulator/step_model.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace dynamix::simulator {

void share_cores(std::span<const double> ready, std::span<const double> work, std::uint32_t cores,
                 std::span<double> finished) {
  if (cores == 0 || work.size() <= cores) {
    std::ranges::transform(ready, work, finished.begin(), std::plus());
    return;
  }
  std::vector<double> left(work.begin(), work.end());
  std::vector<std::size_t> waiting(work.size());
  std::iota(waiting.begin(), waiting.end(), std::size_t{0});
  std::ranges::sort(waiting, std::greater(), [&](std::size_t job) { return ready[job]; });
  std::vector<std::size_t> active;
  double now = 0;
  while (!waiting.empty() || !active.empty()) {
    if (active.empty())
      now = std::max(now, ready[waiting.back()]);
    for (; !waiting.empty() && ready[waiting.back()] <= now; waiting.pop_back())
      active.push_back(waiting.back());
    const double rate = std::min(1.0, static_cast<double>(cores) / static_cast<double>(active.size()));
    const auto next = std::ranges::min_element(active, {}, [&](std::size_t job) { return left[job]; });
    const auto ending = *next;
    const double end = now + left[ending] / rate;
    const bool ends = waiting.empty() || end <= ready[waiting.back()];
    const double until = ends ? end : ready[waiting.back()];
    for (const auto job : active)
      left[job] -= (until - now) * rate;
    now = until;
    if (ends) {
      finished[ending] = now;
      active.erase(next);
    }
  }
}

double shared_cores::step_seconds(std::span<const double> work, std::span<const double> slowdown,
                                  double exchange_seconds, double overlap, std::span<double> computing) {
  share_cores(ready_, work, cores_, finished_);
  const double seconds = simulator::step_seconds(std::ranges::max(finished_), exchange_seconds, overlap);
  for (std::size_t i = 0; i < ready_.size(); ++i) {
    computing[i] = finished_[i] - ready_[i];
    ready_[i] = std::max(0.0, ready_[i] + computing[i] * slowdown[i] - seconds);
  }
  return seconds;
}

double sent_bytes(const network& now) {
  if (now.workers < 2)
    return 0;
  const auto workers = static_cast<double>(now.workers);
  return now.gradient_bytes * (now.topology == cluster::topology_kind::ring ? 2 * (workers - 1) / workers : 1);
}

double exchange_seconds(const network& now) {
  if (now.workers < 2)
    return 0;
  const auto workers = static_cast<double>(now.workers);
  const double bytes = sent_bytes(now);
  const double lossless =
      now.topology == cluster::topology_kind::ring
          ? bytes / now.slowest_link + 2 * (workers - 1) * now.latency_seconds
          : 2 * std::max(workers * bytes / now.server_link, bytes / now.slowest_link) + 2 * now.latency_seconds;
  return lossless / (1 - now.loss_rate);
}

double step_seconds(double computing_seconds, double exchange_seconds, double overlap) {
  if (overlap == 1 || exchange_seconds == 0)
    return computing_seconds + exchange_seconds;
  const double longer = std::max(computing_seconds, exchange_seconds);
  const double shorter = std::min(computing_seconds, exchange_seconds);
  return longer * std::pow(1 + std::pow(shorter / longer, overlap), 1 / overlap);
}

} // namespace dynamix::simulator
