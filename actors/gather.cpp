#include "actors/gather.hpp"

#include <algorithm>
#include <utility>

namespace dynamix::actors {

void gather::joined(std::uint32_t rank) {
  present_.insert(rank);
}

std::vector<messages::shard_report> gather::left(std::uint32_t rank, double now_seconds) {
  latest_.erase(rank);
  return finished(rank, now_seconds);
}

std::vector<messages::shard_report> gather::finished(std::uint32_t rank, double now_seconds) {
  present_.erase(rank);
  if (open_window_ != 0 && complete())
    return {close(now_seconds)};
  return {};
}

std::vector<messages::shard_report> gather::add(messages::window_report report, double now_seconds) {
  std::vector<messages::shard_report> closed;
  const auto window = report.window;
  if (report.generation != generation_ || !present_.contains(report.rank))
    return closed;
  auto& latest = latest_[report.rank];
  if (latest.window < window && open_window_ != 0 && window > open_window_)
    closed.push_back(close(now_seconds));
  if (latest.window < window)
    latest = std::move(report);
  if (window <= last_closed_)
    return closed;
  if (open_window_ == 0) {
    open_window_ = window;
    opened_seconds_ = now_seconds;
  }
  if (complete())
    closed.push_back(close(now_seconds));
  return closed;
}

std::vector<messages::shard_report> gather::deadline(std::uint64_t window, double now_seconds) {
  if (window == 0 || window != open_window_)
    return {};
  return {close(now_seconds)};
}

bool gather::complete() const {
  return std::ranges::all_of(present_, [this](std::uint32_t rank) {
    auto found = latest_.find(rank);
    return found != latest_.end() && found->second.window >= open_window_;
  });
}

messages::shard_report gather::close(double now_seconds) {
  messages::shard_report shard{.window = open_window_,
                               .generation = generation_,
                               .reports = {},
                               .expected = static_cast<std::uint32_t>(present_.size()),
                               .gather_seconds = std::max(0.0, now_seconds - opened_seconds_)};
  for (const auto& [rank, report] : latest_) {
    const bool present = present_.contains(rank);
    if (report.window == 0 || report.window > open_window_ || (!present && report.window < open_window_))
      continue;
    shard.reports.push_back(report);
    shard.expected += present ? 0 : 1;
  }
  last_closed_ = std::exchange(open_window_, 0);
  return shard;
}

} // namespace dynamix::actors
