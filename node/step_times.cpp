#include "node/step_times.hpp"

#include <map>

namespace dynamix::node {

void add_steps(policy::time_split& total, const policy::time_split& each, double count) {
  total.compute_seconds += count * each.compute_seconds;
  total.cpu_wait_seconds += count * each.cpu_wait_seconds;
  total.network_seconds += count * each.network_seconds;
  total.barrier_seconds += count * each.barrier_seconds;
  total.data_seconds += count * each.data_seconds;
  total.other_seconds += count * each.other_seconds;
}

policy::time_split mean_step_times(const std::vector<actors::ledger_row>& rows, const std::string& host) {
  struct window_times {
    policy::time_split time;
    double steps = 0;
  };
  std::map<std::uint64_t, window_times> by_window;
  for (const auto& row : rows)
    if (const auto* window = std::get_if<actors::ledger_window>(&row.entry))
      for (const auto& worker : window->workers)
        if (worker.report.host == host && !worker.stale)
          by_window[worker.report.window] = {worker.time, static_cast<double>(worker.report.training.steps)};
  policy::time_split sum;
  double steps = 0;
  for (const auto& [window, times] : by_window) {
    add_steps(sum, times.time, times.steps);
    steps += times.steps;
  }
  policy::time_split mean;
  if (steps > 0)
    add_steps(mean, sum, 1 / steps);
  return mean;
}

} // namespace dynamix::node
