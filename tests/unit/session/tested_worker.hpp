#pragma once

#include "session/worker_protocol.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace dynamix::session::testing {

using phase = worker_protocol::phase;
using messages::welcome_verdict;

/// A worker of three, and whatever it does since the last look.
class Worker : public ::testing::Test {
protected:
  void happen(event what) {
    for (auto& one : protocol.handle({now, steps}, std::move(what))) {
      if (const auto* said = std::get_if<effects::say_hello>(&one))
        hello = *said;
      done.push_back(std::move(one));
    }
  }

  /// The effects of one kind since the last look, which forgets all others too.
  template <class T>
  std::vector<T> look() {
    std::vector<T> found;
    for (const auto& one : std::exchange(done, {}))
      if (const auto* effect = std::get_if<T>(&one))
        found.push_back(*effect);
    return found;
  }
  template <class T>
  bool did() {
    return !look<T>().empty();
  }

  void answer(messages::welcome welcome = {}) { happen(events::hello_answered{hello.number, std::move(welcome)}); }
  void refuse(welcome_verdict verdict, std::string leader = {}) {
    answer({.verdict = verdict, .detail = "because", .leader = std::move(leader)});
  }

  void place(std::uint64_t generation, std::vector<std::uint32_t> members = {0, 1, 2}, bool same_store = false) {
    happen(events::placement_received{
        std::make_shared<const messages::placement>(messages::placement{
            .generation = generation, .members = std::move(members), .source = 0, .store_prefix = "test"}),
        same_store});
  }

  void leave_generation(std::uint64_t attempted_steps = 0) {
    happen(events::generation_left{.goes_on = true,
                                   .attempted_steps = std::max(attempted_steps, steps),
                                   .account = {.reason = "lost contact", .steps = steps, .decisions = {}}});
  }
  void complete_training() {
    happen(events::generation_left{
        .account = {.succeeded = true, .reason = "epochs completed", .steps = steps, .decisions = {}}});
  }
  void end_after_checkpoint(const std::string& reason) {
    happen(events::generation_left{
        .account = {.reason = reason + "; checkpoint written", .steps = steps, .decisions = {}}});
  }

  void notice(std::uint64_t generation, messages::generation_change change) {
    happen(events::notice_received{{.generation = generation, .change = change, .reason = "a peer is lost"}});
  }

  void decide(std::uint64_t window, std::uint64_t generation = 1, std::uint32_t batch = 64) {
    happen(events::decision_received{
        {.key = {1, window}, .generation = generation, .rank = 1, .batch = batch, .first_step = 10 * window}});
  }

  void report(std::uint64_t window, std::string choice = {}, std::string warning = {}) {
    messages::window_report said{.host = "w1", .rank = 1, .generation = 1, .window = window, .telemetry_seconds = 0.5};
    said.telemetry_choice = std::move(choice);
    said.warning = std::move(warning);
    happen(events::window_completed{said});
  }

  /// So long passes, with a tick every beat interval.
  void wait(double seconds) {
    for (const double until = now + seconds; now < until;) {
      now += timeouts.beat_interval_ms / 1000.0;
      happen(events::tick{});
    }
  }

  void join() {
    happen(events::connected{});
    answer({.term = 1, .rank = 1});
  }
  void train() {
    join();
    place(1);
    done.clear();
  }

  cluster::timeouts timeouts;
  double now = 1000;
  std::uint64_t steps = 0;
  std::vector<effect> done;
  effects::say_hello hello; ///< newest
  worker_protocol protocol{{.timeouts = timeouts,
                            .lowest_batch = 32,
                            .highest_batch = 1024,
                            .identity = {.cluster = "tested", .host = "w1", .incarnation = 7, .checkpoint_steps = 4}}};
};

} // namespace dynamix::session::testing
