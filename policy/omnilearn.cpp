#include "policy/bounded.hpp"
#include "policy/measured_cluster.hpp"
#include "policy/rivals.hpp"
#include "policy/water_filling.hpp"
#include "policy/worker_memory.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

namespace dynamix::policy {
namespace {

constexpr double omnilearn_dead_band = 0.05; ///< of a batch size

/// The computing time of a step under the batch size in force.
struct timing {
  std::uint32_t batch = 0;
  double seconds = 0; ///< 0 while not measured
};

class omnilearn_controller final : public joint_controller {
public:
  explicit omnilearn_controller(const cluster::batch& limits) : limits_(limits) {}
  std::string name() const override { return "omnilearn"; }
  std::vector<choice> choose_all(const observation& observed) override;

private:
  timing measure(const messages::window_report& report);
  bool due(const observation& observed, const std::vector<std::uint32_t>& batches) const;

  cluster::batch limits_;
  worker_memory<timing> timings_;
};

timing omnilearn_controller::measure(const messages::window_report& report) {
  const auto [worker, fresh] = timings_.of(report);
  if (fresh) {
    const auto seconds = computing_seconds(report);
    worker = {.batch = report.batch,
              .seconds = worker.batch == report.batch ? (worker.seconds + seconds) / 2 : seconds};
  }
  return worker;
}

/// Whether somebody leaves the dead band, or the assigned batch sizes are not the global batch (a resumed run).
bool omnilearn_controller::due(const observation& observed, const std::vector<std::uint32_t>& batches) const {
  const auto& assigned = observed.assigned;
  if (std::accumulate(assigned.begin(), assigned.end(), std::uint64_t{0}) !=
      std::accumulate(batches.begin(), batches.end(), std::uint64_t{0}))
    return true;
  for (std::size_t i = 0; i < batches.size(); ++i)
    if (std::abs(static_cast<double>(batches[i]) - assigned[i]) > omnilearn_dead_band * assigned[i])
      return true;
  return false;
}

std::string explain(const timing& worker, double mean, double target) {
  if (worker.seconds == 0)
    return "not measured yet, counts as an average worker";
  char text[128];
  std::snprintf(text, sizeof text, "computes %.1f ms per step against a mean of %.1f ms: %+.0f of %u",
                1e3 * worker.seconds, 1e3 * mean, target - worker.batch, worker.batch);
  return text;
}

std::vector<choice> omnilearn_controller::choose_all(const observation& observed) {
  check(observed);
  const auto& reports = observed.report->reports;
  std::vector<timing> timings;
  double sum = 0;
  for (const auto& report : reports) {
    timings.push_back(measure(report));
    sum += timings.back().seconds;
  }
  const auto measured = std::ranges::count_if(timings, [](const timing& each) { return each.seconds > 0; });
  if (measured == 0)
    return keep_assigned(observed, "no worker measured yet");
  const auto mean = sum / static_cast<double>(measured);
  std::vector<double> targets;
  std::vector<std::string> reasons;
  for (std::size_t i = 0; i < timings.size(); ++i) {
    const auto& [batch, seconds] = timings[i];
    targets.push_back(seconds > 0 ? batch - batch / seconds * (seconds - mean) : observed.assigned[i]);
    reasons.push_back(explain(timings[i], mean, targets[i]));
  }
  const auto total = observed.measured->initial_total();
  const auto batches = split_in_proportion(total, targets, limits_.lowest, observed.highest);
  return due(observed, batches) ? choose(observed, batches, reasons)
                                : keep_assigned(observed, "every worker is within 5 % of its share");
}

} // namespace

std::unique_ptr<controller> make_omnilearn(const cluster::batch& limits) {
  return std::make_unique<omnilearn_controller>(limits);
}

} // namespace dynamix::policy
