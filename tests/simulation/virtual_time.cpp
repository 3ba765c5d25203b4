#include "tests/simulation/virtual_time.hpp"

#include "tests/unit/actors/simulation_config.hpp"

#include <algorithm>
#include <chrono>
#include <limits>

namespace dynamix::simulation {

namespace {

/// CAF's simulated clock must not start at zero.
constexpr caf::actor_clock::time_point origin{std::chrono::hours(1)};

} // namespace

std::int64_t random_source::between(std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low + 1)));
}

caf::actor_system& shared_actor_system() {
  // Never taken down: at a process's exit CAF's testing scheduler is gone before actors that it holds.
  static auto* config = new actors::testing::simulation_config;
  static auto* system = new caf::actor_system(*config);
  return *system;
}

virtual_time::virtual_time(caf::actor_system& system, random_source& random)
    : scheduler_(dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler())), random_(random) {
  scheduler_.clock().current_time = origin;
}

virtual_time::~virtual_time() {
  frozen_ = false;
  run_jobs();
  scheduler_.clock().cancel_all();
  run_jobs();
}

void virtual_time::at(std::int64_t time_us, std::function<void()> event) {
  heap_.push_back({std::max(time_us, now_us_), sequence_++, std::move(event)});
  std::push_heap(heap_.begin(), heap_.end());
}

void virtual_time::advance_clock() {
  auto& clock = scheduler_.clock();
  const auto wanted = origin + std::chrono::microseconds(now_us_);
  if (wanted >= clock.current_time)
    clock.advance_time(wanted - clock.current_time);
}

bool virtual_time::step(std::int64_t until_us) {
  constexpr auto never = std::numeric_limits<std::int64_t>::max();
  const auto& timers = scheduler_.clock().schedule();
  // Rounded up: a timer must not be asked for before it is due.
  const auto timer_us = timers.empty() || frozen_
                            ? never
                            : std::chrono::ceil<std::chrono::microseconds>(timers.begin()->first - origin).count();
  const auto event_us = heap_.empty() ? never : heap_.front().time_us;
  const auto next_us = std::min(timer_us, event_us);
  if (next_us > until_us)
    return false;
  ++count_;
  now_us_ = std::max(now_us_, next_us);
  if (!frozen_)
    advance_clock();
  if (timer_us > event_us) {
    std::pop_heap(heap_.begin(), heap_.end());
    const auto event = std::move(heap_.back().event);
    heap_.pop_back();
    event();
  }
  run_jobs();
  return true;
}

void virtual_time::run_jobs() {
  auto& jobs = scheduler_.jobs;
  while (!jobs.empty() && !frozen_) {
    if (jobs.size() > 1)
      std::swap(jobs.front(), jobs[random_.below(jobs.size())]);
    scheduler_.run_once();
    ++count_;
  }
}

void virtual_time::thaw() {
  frozen_ = false;
  advance_clock();
}

} // namespace dynamix::simulation
