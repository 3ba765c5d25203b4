#include "simulator/step_model.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace dynamix::simulator {

void share_cores(std::span<const double> work, std::uint32_t cores, std::span<double> finished) {
  if (cores == 0 || work.size() <= cores) {
    std::ranges::copy(work, finished.begin());
    return;
  }
  std::vector<std::size_t> order(work.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t job) { return work[job]; });
  double now = 0;
  double served = 0; // seconds of a core that every unfinished job has had
  std::size_t active = work.size();
  for (const auto job : order) {
    const double rate = std::min(1.0, static_cast<double>(cores) / static_cast<double>(active));
    now += (work[job] - served) / rate;
    served = work[job];
    finished[job] = now;
    --active;
  }
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
