#include "swarm/part_events.hpp"

#include "swarm/clock.hpp"

#include <algorithm>
#include <chrono>
#include <fmt/core.h>
#include <stdexcept>
#include <utility>

namespace dynamix::swarm {

part_events::part_events(std::vector<std::uint32_t> ranks, std::uint32_t batch) : ranks_(std::move(ranks)) {
  for (const auto rank : ranks_)
    workers_.push_back({.rank = rank, .batch = batch});
}

std::size_t part_events::index_of(std::uint32_t rank) const {
  const auto found = std::ranges::lower_bound(ranks_, rank);
  if (found == ranks_.end() || *found != rank)
    throw std::out_of_range(fmt::format("rank {} is not a worker of this part", rank));
  return static_cast<std::size_t>(found - ranks_.begin());
}

void part_events::placed(std::uint32_t rank) {
  const std::scoped_lock lock(mutex_);
  if (placed_.insert(rank).second && placed_.size() == ranks_.size())
    changed_.notify_all();
}

void part_events::sent(std::uint32_t rank) {
  const auto now = monotonic_ns();
  const std::scoped_lock lock(mutex_);
  workers_[index_of(rank)].sent_ns = now;
}

void part_events::applied(const messages::decision& decision) {
  const auto now = monotonic_ns();
  const std::scoped_lock lock(mutex_);
  auto& worker = workers_[index_of(decision.rank)];
  worker.batch = decision.batch;
  if (decision.key.window != window_ || worker.applied_ns != 0)
    return;
  worker.applied_ns = now;
  if (++decided_ == ranks_.size())
    changed_.notify_all();
}

void part_events::left(std::uint32_t rank) {
  const std::scoped_lock lock(mutex_);
  if (left_.insert(rank).second && left_.size() == ranks_.size())
    changed_.notify_all();
}

void part_events::failed(const std::string& reason) {
  const std::scoped_lock lock(mutex_);
  if (failure_.empty())
    failure_ = reason;
  changed_.notify_all();
}

void part_events::open_window(std::uint64_t window) {
  const std::scoped_lock lock(mutex_);
  window_ = window;
  decided_ = 0;
  for (auto& worker : workers_)
    worker.sent_ns = worker.applied_ns = 0;
}

template <class Done>
void part_events::wait(std::unique_lock<std::mutex>& lock, std::int64_t deadline_ns, Done done) {
  const std::chrono::steady_clock::time_point deadline{std::chrono::nanoseconds(deadline_ns)};
  changed_.wait_until(lock, deadline, [&] { return !failure_.empty() || done(); });
}

std::vector<worker_window> part_events::wait_for_window(std::int64_t deadline_ns) {
  std::unique_lock lock(mutex_);
  wait(lock, deadline_ns, [&] { return decided_ == ranks_.size(); });
  return workers_;
}

std::size_t part_events::wait_for_places(std::int64_t deadline_ns) {
  std::unique_lock lock(mutex_);
  wait(lock, deadline_ns, [&] { return placed_.size() == ranks_.size(); });
  return placed_.size();
}

std::size_t part_events::wait_for_farewells(std::int64_t deadline_ns) {
  std::unique_lock lock(mutex_);
  wait(lock, deadline_ns, [&] { return left_.size() == ranks_.size(); });
  return left_.size();
}

std::string part_events::failure() const {
  const std::scoped_lock lock(mutex_);
  return failure_;
}

} // namespace dynamix::swarm
