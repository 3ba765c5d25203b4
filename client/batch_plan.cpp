#include "client/batch_plan.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace dynamix::client {

std::uint64_t planned_batches::total() const {
  return std::accumulate(batches.begin(), batches.end(), std::uint64_t{0});
}

batch_plan::batch_plan(std::vector<std::uint32_t> batches, std::vector<std::uint32_t> limits,
                       messages::decision_key key) {
  entries_.push_back({.key = key, .batches = std::move(batches), .limits = std::move(limits)});
}

const planned_batches& batch_plan::at(std::uint64_t step) const {
  const auto behind = std::ranges::upper_bound(entries_, step, {}, &planned_batches::from_step);
  return behind == entries_.begin() ? *behind : *std::prev(behind);
}

void batch_plan::add(planned_batches next) {
  std::erase_if(entries_, [&](const planned_batches& each) { return each.from_step >= next.from_step; });
  entries_.push_back(std::move(next));
}

void batch_plan::forget_before(std::uint64_t step) {
  while (entries_.size() > 1 && entries_[1].from_step <= step)
    entries_.erase(entries_.begin());
}

} // namespace dynamix::client
