#pragma once

/// Virtual time for real actors and for the machines and the network that are modelled around them.

#include "storage/splitmix64.hpp"

#include <caf/all.hpp>
#include <caf/scheduler/test_coordinator.hpp>

#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

namespace dynamix::simulation {

constexpr std::int64_t us_per_ms = 1000;
constexpr std::int64_t us_per_second = 1'000'000;

/// Everything random in a simulation comes from one of these.
class random_source {
public:
  explicit random_source(std::uint64_t seed) : words_(seed) {}
  std::uint64_t next() { return words_.next(); }
  /// In [0, count).
  std::uint64_t below(std::uint64_t count) { return count == 0 ? 0 : next() % count; }
  /// In [low, high].
  std::int64_t between(std::int64_t low, std::int64_t high);
  bool chance(double probability) { return static_cast<double>(next() >> 11) * 0x1p-53 < probability; }

private:
  storage::splitmix64 words_;
};

/// An actor system whose scheduler and clock a simulation drives. Making one costs more than a simulation, so all
/// simulations of a process share it, one after the other; each ends all actors that it spawned.
caf::actor_system& shared_actor_system();

/// The time of one simulation. Modelled events and actors' timers run in the order of their times; whatever actors can
/// do at a time they do before it passes, one job after the other in an order that the seed picks.
class virtual_time {
public:
  virtual_time(caf::actor_system& system, random_source& random);
  /// Every actor that was spawned must have been sent its exit.
  ~virtual_time();
  virtual_time(const virtual_time&) = delete;
  virtual_time& operator=(const virtual_time&) = delete;

  std::int64_t now_us() const { return now_us_; }
  void at(std::int64_t time_us, std::function<void()> event);
  void after(std::int64_t delay_us, std::function<void()> event) { at(now_us_ + delay_us, std::move(event)); }
  /// Runs what comes next. False when nothing does before `until_us`.
  bool step(std::int64_t until_us);
  /// Runs all jobs of actors.
  void run_jobs();

  /// The host of the actors stops (SIGSTOP): no job runs and no timer fires until it goes on.
  void freeze() { frozen_ = true; }
  void thaw();
  bool frozen() const { return frozen_; }
  /// Modelled events and jobs that have run.
  std::uint64_t count() const { return count_; }

private:
  struct entry {
    std::int64_t time_us;
    std::uint64_t sequence;
    std::function<void()> event;
    bool operator<(const entry& other) const {
      return time_us != other.time_us ? time_us > other.time_us : sequence > other.sequence;
    }
  };

  void advance_clock();

  caf::scheduler::test_coordinator& scheduler_;
  random_source& random_;
  std::vector<entry> heap_;
  std::int64_t now_us_ = 0;
  std::uint64_t sequence_ = 0;
  std::uint64_t count_ = 0;
  bool frozen_ = false;
};

} // namespace dynamix::simulation
