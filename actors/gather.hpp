#pragma once

/// Gathers one shard's window reports. Knows no CAF and no clock.

#include "messages/types.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <vector>

namespace dynamix::actors {

/// A window closes when every present worker has reported it, or at a deadline after its first report: then the last
/// report of each late worker stands in. A window closes at most once, and never after a later one.
class gather {
public:
  explicit gather(std::uint64_t generation) : generation_(generation) {}

  std::uint64_t generation() const { return generation_; }
  void joined(std::uint32_t rank);
  /// The worker is lost, and its reports with it. Windows that waited for nobody else close.
  std::vector<messages::shard_report> left(std::uint32_t rank, double now_seconds);
  /// The worker has come to its end and reports no more. What it has reported of the open window counts.
  std::vector<messages::shard_report> finished(std::uint32_t rank, double now_seconds);

  /// A report came in. The windows that it closes, in order: the awaited one when it is complete, and before it any
  /// older one that is still open (a report was lost, and the workers have gone on).
  std::vector<messages::shard_report> add(messages::window_report report, double now_seconds);

  /// The deadline of `window` has come; nothing if it has closed already.
  std::vector<messages::shard_report> deadline(std::uint64_t window, double now_seconds);

  /// The window that is being gathered; 0 when none is.
  std::uint64_t open_window() const { return open_window_; }

private:
  messages::shard_report close(double now_seconds);
  bool complete() const;

  std::uint64_t generation_;
  std::uint64_t open_window_ = 0;
  std::uint64_t last_closed_ = 0;
  double opened_seconds_ = 0;
  std::set<std::uint32_t> present_;
  std::map<std::uint32_t, messages::window_report> latest_; ///< of every worker that is not lost, by rank
};

} // namespace dynamix::actors
