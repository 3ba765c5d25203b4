#include "simulator/trace_group.hpp"

#include <utility>

namespace dynamix::simulator {

trace_group::trace_group(std::uint32_t lowest, std::vector<std::uint32_t> highest, double least_total, bool masked)
    : lowest_(lowest), highest_(std::move(highest)) {
  for (const auto most : highest_)
    workers_.emplace_back(policy::trace_worker::limits{.lowest = lowest_, .highest = most, .least_total = least_total},
                          masked);
  laid_.resize(workers_.size());
  accounts_.resize(workers_.size());
}

std::vector<std::uint32_t> trace_group::step(const std::vector<std::uint32_t>& in_force,
                                             std::span<const double> computed, double step_seconds, double noise_scale,
                                             const chooser& choose, const learning& learn) {
  if (std::exchange(first_, false))
    return in_force;
  std::vector<choice> next(workers_.size());
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    auto& worker = workers_[i];
    worker.measure(in_force[i], computed[i]);
    next[i].seen = worker.view(field_, noise_scale);
    next[i].action = choose(i, next[i].seen);
    laid_[i] =
        policy::decode_trace(policy::encode(worker.choose(field_, noise_scale, next[i].action, wish_.correction())));
  }
  field_.deposit(laid_);
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    if (learn && !chosen_.empty())
      learn(i, {.seen = chosen_[i].seen,
                .action = chosen_[i].action,
                .reward = static_cast<float>(workers_[i].worth(field_, noise_scale)),
                .next = next[i].seen});
    workers_[i].pass_barrier(field_, step_seconds);
  }
  chosen_ = std::move(next);
  auto batches = policy::batches_of(laid_, in_force, lowest_, highest_);
  if (reported_.empty())
    reported_ = in_force;
  for (std::size_t i = 0; i < workers_.size(); ++i)
    accounts_[i].add(batches[i], reported_[i], batches != in_force);
  return batches;
}

void trace_group::report(std::vector<messages::window_report>& reports) {
  if (!reports.empty())
    wish_.close(reports.front().window, reports.front().global_batch);
  for (std::size_t i = 0; i < reports.size() && i < workers_.size(); ++i)
    reports[i].reflex = accounts_[i].take(workers_[i].pace());
  reported_.clear();
}

} // namespace dynamix::simulator
