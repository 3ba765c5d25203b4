#pragma once

/// What the conductor of a swarm and its processes say to each other.

#include <cstdint>
#include <string>
#include <vector>

namespace dynamix::swarm {

/// Each process is a part of the swarm: it holds some of the workers.
///
///     conductor                    part
///                          <-- up           its system runs
///     join                 -->
///                          <-- joining      now and again: how many of its workers have a place
///                          <-- joined       all have
///     prepare w            -->              batch sizes of all workers; it runs the world, and packs its reports
///                          <-- prepared w
///     go w at t            -->              at t the window ends: the reports go out
///                          <-- done w       what became of each worker's decision
///     finish               -->              farewells
///                          <-- finished     it ends
///
/// `failed`, with the reason, may come instead of any answer.
enum class verb : std::uint32_t {
  up = 1,
  join,
  joining,
  joined,
  prepare,
  prepared,
  go,
  done,
  finish,
  finished,
  failed
};

/// One worker's window. Times are of monotonic_ns(); 0: it has not happened.
struct worker_window {
  std::uint32_t rank = 0;
  std::uint32_t batch = 0; ///< in force from now on
  std::int64_t sent_ns = 0;
  std::int64_t applied_ns = 0;
  friend bool operator==(const worker_window&, const worker_window&) = default;
};

/// Counted since a part began.
struct traffic {
  std::uint64_t sent = 0;     ///< messages to the arbitrator's side
  std::uint64_t received = 0; ///< from it
  std::uint64_t applied = 0;  ///< decisions
  std::uint64_t refused = 0;  ///< decisions that were stale, repeated, of another generation or out of bounds
  std::uint64_t hellos = 0;
  std::uint64_t generations = 0; ///< places taken
  friend bool operator==(const traffic&, const traffic&) = default;
};

inline traffic operator+(const traffic& left, const traffic& right) {
  return {left.sent + right.sent,       left.received + right.received, left.applied + right.applied,
          left.refused + right.refused, left.hellos + right.hellos,     left.generations + right.generations};
}
inline traffic operator-(const traffic& left, const traffic& right) {
  return {left.sent - right.sent,       left.received - right.received, left.applied - right.applied,
          left.refused - right.refused, left.hellos - right.hellos,     left.generations - right.generations};
}

struct part_message {
  verb what = verb::up;
  std::uint64_t window = 0;
  std::int64_t at_ns = 0;       ///< of go
  std::int64_t deadline_ns = 0; ///< of go: what has not come by then is lost
  std::uint64_t placed = 0;     ///< of joining, joined, finished: workers of the part, of finished those that left
  swarm::traffic traffic;       ///< of every message but the conductor's
  std::vector<std::uint32_t> batches;  ///< of prepare, by rank, of all workers: in force at the window's end
  std::vector<std::uint32_t> settling; ///< of prepare: of its first steps; empty: the same
  std::vector<worker_window> workers;  ///< of done
  std::string text;                    ///< of failed
  friend bool operator==(const part_message&, const part_message&) = default;
};

} // namespace dynamix::swarm
