#pragma once

/// Decisions made for each worker since its process came, counted as the ledger is read. Pure.

#include "actors/ledger.hpp"

#include <cstdint>
#include <deque>
#include <map>
#include <string>

namespace dynamix::node {

class decision_count {
public:
  /// `silence_seconds`: how long nothing may have passed before a worker was called lost.
  explicit decision_count(double silence_seconds) : silence_seconds_(silence_seconds) {}
  void add(const actors::ledger_row& row);

  struct made {
    std::uint64_t count = 0;
    std::uint64_t on_their_way = 0; ///< when its connection broke, or the arbitrator ended
  };
  std::map<std::string, made> by_host() const;

private:
  struct host_count {
    made so_far;
    std::deque<double> recent_seconds; ///< when those were made that may be on their way

    void decide(double at_seconds, double silence_seconds);
    /// Of what was made since then nothing needs to have arrived, and of the newest in any case.
    void interrupt(double since_seconds);
  };

  double silence_seconds_;
  std::map<std::string, host_count> hosts_;
};

} // namespace dynamix::node
