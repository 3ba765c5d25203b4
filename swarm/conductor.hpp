#pragma once

/// Leads the parts of a swarm through joining, windows and farewells, all at one pace.

#include "swarm/channel.hpp"

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

namespace dynamix::swarm {

struct conductor_options {
  std::uint32_t workers = 0;
  std::uint32_t windows = 30;       ///< that count
  std::uint32_t warm_up = 3;        ///< windows before them
  std::uint32_t interval_ms = 1000; ///< from one window's end to the next; longer where decisions take longer
  std::uint32_t window_steps = 10;
  std::uint32_t initial_batch = 64;
  double join_patience_seconds = 120;
  double decision_patience_seconds = 10; ///< what has not come by then is lost
};

/// Times are seconds, latencies from the windows that count.
struct swarm_outcome {
  std::string failure; ///< empty: every window has run
  bool stopped = false;
  double join_seconds = 0;            ///< first hello to last place
  std::uint64_t windows = 0;          ///< that have run and count
  std::uint64_t on_time = 0;          ///< of those: ended an interval after the one before
  double measured_seconds = 0;        ///< from the first of them to the last decision on the last
  std::vector<float> end_to_applied;  ///< window's end, the same for all workers, to the decision applied at one
  std::vector<float> sent_to_applied; ///< the worker's own report sent to its decision applied
  std::vector<float> last_applied;    ///< window's end to the last worker's decision; of windows with one
  std::uint64_t expected = 0;         ///< decisions: one a worker and window, warm-up included
  std::uint64_t applied = 0;
  std::uint64_t lost = 0;      ///< had not come within the patience
  swarm::traffic traffic;      ///< of all parts, in the windows that count
  swarm::traffic whole;        ///< from the first hello to the last farewell
  std::uint64_t farewells = 0; ///< workers that ended well
};

/// What others do meanwhile.
struct conductor_hooks {
  std::function<void(std::uint64_t placed)> joining = [](std::uint64_t) {};
  std::function<void()> before_measured = [] {};
  /// One that counts, from 1 on, is about to end.
  std::function<void(std::uint64_t window)> before_window = [](std::uint64_t) {};
  std::function<void()> after_measured = [] {};
  std::function<void(const swarm_outcome&)> after_window = [](const swarm_outcome&) {};
};

/// Runs the parts, which are up, to their end. Each worker's batch size is what was decided for it, in force as in
/// training (cluster/decision_steps.hpp).
swarm_outcome conduct(const conductor_options& options, std::vector<channel>& parts, const conductor_hooks& hooks,
                      const std::stop_token& stop);

/// Waits until every part is up. Empty, or what went wrong.
std::string wait_until_up(std::vector<channel>& parts, double patience_seconds, const std::stop_token& stop);

} // namespace dynamix::swarm
