#include "policy/bounded.hpp"
#include "policy/measured_cluster.hpp"
#include "policy/rivals.hpp"
#include "policy/water_filling.hpp"
#include "policy/worker_memory.hpp"

#include <algorithm>
#include <cstdio>
#include <numeric>

namespace dynamix::policy {
namespace {

class lb_bsp_controller final : public joint_controller {
public:
  explicit lb_bsp_controller(const cluster::batch& limits) : limits_(limits) {}
  std::string name() const override { return "lb-bsp"; }
  std::vector<choice> choose_all(const observation& observed) override;

private:
  /// Samples a second of computing; 0 while not measured.
  double measure_speed(const messages::window_report& report);

  cluster::batch limits_;
  worker_memory<double> speeds_;
};

double lb_bsp_controller::measure_speed(const messages::window_report& report) {
  const auto [speed, fresh] = speeds_.of(report);
  if (fresh) {
    const auto now = report.batch / computing_seconds(report);
    speed = speed == 0 ? now : (speed + now) / 2;
  }
  return speed;
}

std::string explain(double speed, double speeds, std::uint64_t total, bool measured) {
  char text[160];
  if (measured)
    std::snprintf(text, sizeof text, "computes %.0f samples/s of %.0f in all: %.0f %% of %llu", speed, speeds,
                  100 * speed / speeds, static_cast<unsigned long long>(total));
  else
    std::snprintf(text, sizeof text, "not measured yet, counts as an average worker: %.0f %% of %llu",
                  100 * speed / speeds, static_cast<unsigned long long>(total));
  return text;
}

std::vector<choice> lb_bsp_controller::choose_all(const observation& observed) {
  check(observed);
  const auto& reports = observed.report->reports;
  std::vector<double> speeds;
  for (const auto& report : reports)
    speeds.push_back(measure_speed(report));
  const auto unmeasured = std::ranges::count(speeds, 0.0);
  const auto measured = static_cast<std::ptrdiff_t>(speeds.size()) - unmeasured;
  if (measured == 0)
    return keep_assigned(observed, "no worker measured yet");
  const auto mean = std::accumulate(speeds.begin(), speeds.end(), 0.0) / static_cast<double>(measured);
  const auto total = observed.measured->initial_total();
  std::vector<std::string> reasons;
  for (auto& speed : speeds) {
    const bool known = speed > 0;
    if (!known)
      speed = mean;
    reasons.push_back(explain(speed, mean * static_cast<double>(speeds.size()), total, known));
  }
  return choose(observed, split_in_proportion(total, speeds, limits_.lowest, observed.highest), reasons);
}

} // namespace

std::unique_ptr<controller> make_lb_bsp(const cluster::batch& limits) {
  return std::make_unique<lb_bsp_controller>(limits);
}

} // namespace dynamix::policy
