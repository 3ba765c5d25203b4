#include "simulator/balanced_group.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace dynamix::simulator {

balanced_group::balanced_group(messages::balancing how, std::uint32_t lowest, std::vector<std::uint32_t> highest,
                               std::uint64_t least_total)
    : how_(how), lowest_(lowest), highest_(std::move(highest)), least_total_(least_total), workers_(highest_.size()) {}

std::vector<std::uint32_t> balanced_group::step(const std::vector<std::uint32_t>& in_force,
                                                std::span<const double> computed, double step_seconds,
                                                double noise_scale, const std::vector<std::uint32_t>& decided) {
  const auto& named = decided.empty() ? in_force : decided;
  if (std::exchange(first_, false))
    return named;
  auto total = std::accumulate(named.begin(), named.end(), std::uint64_t{0});
  std::vector<policy::balanced_worker> paced;
  std::vector<std::uint64_t> proposed;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    workers_[i].measure(in_force[i], computed[i]);
    workers_[i].end_step(step_seconds);
    paced.push_back(
        {.pace = workers_[i].estimate(in_force[i]), .batch = in_force[i], .lowest = lowest_, .highest = highest_[i]});
    if (how_ == messages::balancing::all)
      proposed.push_back(workers_[i].propose(noise_scale, least_total_));
  }
  if (!proposed.empty())
    total = policy::median_total(std::move(proposed), total);
  if (!std::ranges::all_of(paced, [](const auto& worker) { return worker.pace.measured(); }))
    for (std::size_t i = 0; i < paced.size(); ++i)
      paced[i].batch = named[i];
  const auto next = policy::balance(total, paced);
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    workers_[i].follow(next);
    workers_[i].count(next.batches[i], decided.empty() && next.batches != in_force);
  }
  return next.batches;
}

void balanced_group::report(std::vector<messages::window_report>& reports) {
  for (std::size_t i = 0; i < reports.size() && i < workers_.size(); ++i)
    reports[i].balance = workers_[i].take_statistics(reports[i].batch);
}

} // namespace dynamix::simulator
