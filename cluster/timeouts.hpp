#pragma once

#include <cstdint>

namespace dynamix::cluster {

/// Every time-out, derived from `detect_ms` in one place (`derive_timeouts`).
struct timeouts {
  std::uint32_t heartbeat_interval_ms = 1000;  ///< CAF's; >= 1000, or a connecting socket dies at the next tick
  std::uint32_t connection_timeout_ms = 4000;  ///< CAF's: a silent peer is gone
  std::uint32_t probe_timeout_ms = 1000;       ///< TCP probe before a connect
  std::uint32_t request_timeout_ms = 2000;     ///< a request to another host
  std::uint32_t gather_timeout_ms = 500;       ///< the aggregator's deadline after a window's first report
  std::uint32_t beat_interval_ms = 250;        ///< a worker's sign of life
  std::uint32_t silence_ms = 1500;             ///< without one: the worker is lost
  std::uint32_t rejoin_timeout_ms = 5000;      ///< what a new arbitrator waits for the workers of a running generation
  std::uint32_t stall_timeout_ms = 60000;      ///< without a completed step, or a training thread that does not let go
  std::uint32_t collective_timeout_ms = 60000; ///< of a collective in which nothing moves
  std::uint32_t join_timeout_ms = 600000;      ///< all workers present
  std::uint32_t shutdown_timeout_ms = 5000;    ///< orderly end, then _exit
};

/// With d = detect_ms, in milliseconds:
///   heartbeat interval   max(1000, d/4)   CAF drops a connecting socket at the next tick, so never below a second
///   connection time-out  4 x heartbeat    three lost heartbeats are not a failure
///   probe time-out       d within [250, 5000]
///   request time-out     max(1000, 2d)
///   gather time-out      max(50, d/2)
///   beat interval        max(25, d/4)
///   silence              3d/2             so that a hung worker is found within 2d
///   rejoin time-out      max(5000, 5d)
///   stall time-out       max(60000, 60d)  a step of the slowest host must fit
///   collective time-out  max(60000, 60d)  a step of the slowest host must fit, whatever d is
///   join time-out        max(600000, 600d)  people start hosts by hand
///   shutdown time-out    max(5000, 5d)
timeouts derive_timeouts(std::uint32_t detect_ms);

} // namespace dynamix::cluster
