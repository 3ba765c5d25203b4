#pragma once

#include "swarm/transport.hpp"

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace dynamix::swarm {

/// What has come of a part's workers. Thread-safe.
class part_events final : public transport_events {
public:
  /// Workers of these ranks, rising; `batch`: of all at the start.
  part_events(std::vector<std::uint32_t> ranks, std::uint32_t batch);

  void placed(std::uint32_t rank) override;
  void sent(std::uint32_t rank) override;
  void applied(const messages::decision& decision) override;
  void left(std::uint32_t rank) override;
  void failed(const std::string& reason) override;

  /// From here on a decision on this window counts as its own.
  void open_window(std::uint64_t window);
  /// The window's outcome, once every worker has a decision or the time has come.
  std::vector<worker_window> wait_for_window(std::int64_t deadline_ns);
  /// Workers that have a place; returns at once when all have, or it failed, or the time has come.
  std::size_t wait_for_places(std::int64_t deadline_ns);
  std::size_t wait_for_farewells(std::int64_t deadline_ns);
  std::string failure() const;

private:
  std::size_t index_of(std::uint32_t rank) const;
  template <class Done>
  void wait(std::unique_lock<std::mutex>& lock, std::int64_t deadline_ns, Done done);

  const std::vector<std::uint32_t> ranks_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t window_ = 0;
  std::size_t decided_ = 0;
  std::vector<worker_window> workers_; ///< in the order of ranks_
  std::set<std::uint32_t> placed_;
  std::set<std::uint32_t> left_;
  std::string failure_;
};

} // namespace dynamix::swarm
