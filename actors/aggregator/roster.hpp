#pragma once

/// The workers of a shard, and their signs of life. Knows no CAF and no clock.

#include "messages/types.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace dynamix::actors {

class roster {
public:
  roster() = default;
  roster(double silence_seconds, double interval_seconds)
      : silence_seconds_(silence_seconds), interval_seconds_(interval_seconds) {}

  void joined(std::uint32_t rank, std::uint64_t incarnation, double now_seconds);
  /// Its incarnation; nothing for one that is not here.
  std::optional<std::uint64_t> left(std::uint32_t rank);
  /// Another process of that worker is here. Incarnation 0 is never another.
  bool holds_other(std::uint32_t rank, std::uint64_t incarnation) const;
  /// False for one that is not here, or is asked to leave: it is to find out.
  bool beat(const messages::heartbeat& sign, double now_seconds);
  /// Its next sign of life is not answered.
  void send_away(std::uint32_t rank);
  /// Who has been silent for too long, each once. To be called every beat interval: a caller that comes late has slept
  /// itself, and that time counts against nobody.
  std::vector<messages::absence> find_silent(double now_seconds);
  /// The newest sign of each worker since the last call, by rank.
  std::vector<messages::heartbeat> take_beats();
  bool empty() const { return workers_.empty(); }

private:
  struct worker {
    std::uint64_t incarnation = 0;
    double seen_seconds = 0;
    bool told = false; ///< that it is silent
    bool leaving = false;
    std::optional<messages::heartbeat> sign;
  };
  std::map<std::uint32_t, worker> workers_;
  double silence_seconds_ = 0;
  double interval_seconds_ = 0;
  double looked_seconds_ = -1;
};

} // namespace dynamix::actors
