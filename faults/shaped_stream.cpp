#include "faults/shaped_stream.hpp"

#include <algorithm>

namespace dynamix::faults {
namespace {

constexpr double burst_seconds = 0.05; ///< of a throttled way

double burst_bytes(const link_condition& condition) {
  return std::max(1.0, burst_seconds * condition.bytes_per_second);
}

} // namespace

void shaped_stream::push(double now_seconds, std::string bytes, const link_condition& condition,
                         way_counters& counters) {
  if (condition.drop) {
    counters.dropped_bytes += bytes.size();
    return;
  }
  if (condition.hold)
    counters.held_bytes += bytes.size();
  if (condition.delay_seconds > 0)
    counters.delayed_bytes += bytes.size();
  // A delay that has just become shorter lets nothing overtake.
  const double earliest = chunks_.empty() ? 0 : chunks_.back().due_seconds;
  bytes_ += bytes.size();
  chunks_.push_back({std::max(earliest, now_seconds + condition.delay_seconds), std::move(bytes)});
}

std::string shaped_stream::take(double now_seconds, std::size_t most, const link_condition& condition,
                                way_counters& counters) {
  std::string taken;
  blocked_ = false;
  if (condition.hold)
    return taken;
  if (condition.bytes_per_second > 0) {
    budget_bytes_ = std::min(burst_bytes(condition),
                             budget_bytes_ + (now_seconds - refilled_seconds_) * condition.bytes_per_second);
    most = std::min(most, static_cast<std::size_t>(budget_bytes_));
  }
  refilled_seconds_ = now_seconds;
  while (!chunks_.empty() && chunks_.front().due_seconds <= now_seconds && taken.size() < most) {
    auto& first = chunks_.front();
    const auto part = std::min(most - taken.size(), first.bytes.size());
    taken.append(first.bytes, 0, part);
    first.bytes.erase(0, part);
    if (first.bytes.empty())
      chunks_.pop_front();
  }
  bytes_ -= taken.size();
  if (condition.bytes_per_second > 0) {
    budget_bytes_ -= static_cast<double>(taken.size());
    if (!chunks_.empty() && chunks_.front().due_seconds <= now_seconds)
      counters.throttled_bytes += std::max<std::size_t>(taken.size(), 1);
  }
  return taken;
}

void shaped_stream::put_back(std::string bytes) {
  if (bytes.empty())
    return;
  blocked_ = true;
  bytes_ += bytes.size();
  chunks_.push_front({0, std::move(bytes)});
}

std::optional<double> shaped_stream::next_seconds(double now_seconds, const link_condition& condition) const {
  if (chunks_.empty() || condition.hold)
    return std::nullopt;
  if (condition.bytes_per_second > 0) {
    // Worth waking for: a burst, or what there is.
    const double wanted = std::min(burst_bytes(condition), static_cast<double>(bytes_));
    return std::max(chunks_.front().due_seconds,
                    now_seconds + std::max(0.0, wanted - budget_bytes_) / condition.bytes_per_second);
  }
  return chunks_.front().due_seconds;
}

} // namespace dynamix::faults
