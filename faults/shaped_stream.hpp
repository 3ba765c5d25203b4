#pragma once

/// One way of a proxied connection: the bytes that are under way, and when they may go on. Pure.

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

namespace dynamix::faults {

/// What a link does to the bytes of one way.
struct link_condition {
  bool hold = false;           ///< nothing passes; what was sent passes afterwards
  bool drop = false;           ///< what is sent vanishes
  double delay_seconds = 0;    ///< each byte arrives so much later
  double bytes_per_second = 0; ///< 0: as many as there are
};

struct way_counters {
  std::uint64_t passed_bytes = 0;
  std::uint64_t held_bytes = 0; ///< that had to wait for the end of a hold
  std::uint64_t dropped_bytes = 0;
  std::uint64_t delayed_bytes = 0;
  std::uint64_t throttled_bytes = 0; ///< that found the budget spent
  std::uint64_t corrupted = 0;       ///< chunks
  std::uint64_t truncated = 0;

  /// Everything but what merely passed.
  std::uint64_t touched() const {
    return held_bytes + dropped_bytes + delayed_bytes + throttled_bytes + corrupted + truncated;
  }
};

class shaped_stream {
public:
  static constexpr std::size_t bytes_most = 8U << 20; ///< under way; beyond it the sender has to wait

  void push(double now_seconds, std::string bytes, const link_condition& condition, way_counters& counters);
  /// At most `most` bytes that may go on now.
  std::string take(double now_seconds, std::size_t most, const link_condition& condition, way_counters& counters);
  /// Bytes that were taken and did not fit.
  void put_back(std::string bytes);
  /// When something may go on; nothing when that depends on others.
  std::optional<double> next_seconds(double now_seconds, const link_condition& condition) const;
  bool full() const { return bytes_ >= bytes_most; }
  bool empty() const { return chunks_.empty(); }
  /// The receiver took less than it was offered.
  bool blocked() const { return blocked_; }

private:
  struct chunk {
    double due_seconds;
    std::string bytes;
  };
  std::deque<chunk> chunks_;
  std::size_t bytes_ = 0;
  bool blocked_ = false;
  double budget_bytes_ = 0; ///< of a throttled way
  double refilled_seconds_ = 0;
};

} // namespace dynamix::faults
