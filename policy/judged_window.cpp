#include "policy/judged_window.hpp"

#include <cstdint>
#include <utility>
#include <vector>

namespace dynamix::policy {

void predict(const measured_cluster& measured, judged_window& window) {
  if (!measured.any_measured())
    return;
  const auto promise = [](const batch_plan& plan) {
    return promised_step{.total = plan.total, .slowest_seconds = plan.slowest_seconds, .goodput = plan.goodput};
  };
  const auto* plan = measured.best_if_found();
  std::vector<std::uint32_t> assigned;
  std::vector<std::uint32_t> decided;
  for (std::size_t i = 0; i < window.workers.size(); ++i) {
    auto& row = window.workers[i];
    assigned.push_back(row.assigned_batch);
    decided.push_back(row.decided_batch);
    if (measured.measured(i))
      row.predicted_seconds = measured.seconds(i, row.decided_batch);
    if (plan != nullptr)
      row.planned_batch = plan->batches[i];
  }
  window.predicted = {.exchange_seconds = measured.exchange_seconds(),
                      .noise_scale = measured.noise_scale(),
                      .noise_error = measured.noise_error(),
                      .assigned = promise(measured.judge(std::move(assigned))),
                      .decided = promise(measured.judge(std::move(decided)))};
  if (plan != nullptr)
    window.predicted.planned = promise(*plan);
}

} // namespace dynamix::policy
