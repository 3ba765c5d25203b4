#pragma once

/// A membership of three workers (ada, ben, cy) in virtual time, and what they say and hear.

#include "actors/aggregator/membership.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dynamix::actors::testing {

inline cluster::cluster_file three_workers() {
  cluster::cluster_file file;
  file.name = "test";
  file.hosts = {{.name = "north", .port = 1, .roles = {cluster::role::arbitrator}},
                {.name = "ada", .port = 2},
                {.name = "ben", .port = 3},
                {.name = "cy", .port = 4}};
  return file;
}

class small_membership {
protected:
  messages::hello hello(const std::string& host, std::uint64_t incarnation = 7) const {
    messages::hello said;
    said.cluster = "test";
    said.cluster_digest = file.digest();
    said.host = host;
    said.incarnation = incarnation;
    said.heartbeat_interval_ms = timeouts.heartbeat_interval_ms;
    return said;
  }
  messages::welcome admit(const messages::hello& said) { return members.admit(said, now); }

  /// Has left `generation` and waits for a place.
  void leave(const std::string& host, std::uint64_t steps, std::uint64_t attempted, std::uint64_t generation = 1) {
    auto said = hello(host);
    said.generation = generation;
    said.steps = steps;
    said.attempted_steps = attempted;
    ASSERT_EQ(admit(said).verdict, messages::welcome_verdict::accepted) << host;
  }
  /// Trains, and meets this arbitrator for the first time.
  void train(const std::string& host, std::uint64_t generation, std::vector<std::uint32_t> placed, std::uint64_t steps,
             messages::decision_key newest) {
    auto said = hello(host);
    said.generation = generation;
    said.training = true;
    said.members = std::move(placed);
    said.steps = said.attempted_steps = steps;
    said.last_decision = newest;
    ASSERT_EQ(admit(said).verdict, messages::welcome_verdict::accepted) << host;
  }
  std::uint32_t rank_of(const std::string& host) const {
    const auto& all = members.state().members;
    return static_cast<std::uint32_t>(std::ranges::find(all, host, &member::host) - all.begin());
  }
  void beat(const std::string& host, std::uint64_t steps, std::uint64_t generation = 0) {
    const auto rank = rank_of(host);
    members.beat({.rank = rank,
                  .incarnation = members.state().members[rank].incarnation,
                  .generation = generation == 0 ? members.generation() : generation,
                  .steps = steps},
                 now);
  }
  bool depart(const std::string& host) {
    return members.departed({.host = host, .rank = rank_of(host), .succeeded = true, .decisions = {}}, now);
  }

  void look() {
    for (auto& done : members.next(now)) {
      notices.insert(notices.end(), done.notices.begin(), done.notices.end());
      if (!done.placement)
        continue;
      if (announces)
        members.announced();
      formed = done.placement;
      change = std::move(done);
    }
  }
  /// All three join and train in generation 1.
  void start() {
    for (const auto* host : {"ada", "ben", "cy"})
      admit(hello(host));
    look();
    ASSERT_TRUE(formed);
  }
  /// All three trained; cy was lost, and is back as another process, with which the others are to regroup.
  void begin_regroup() {
    start();
    members.disconnected(2, "test", now);
    look();
    leave("ada", 5, 6);
    leave("ben", 5, 6);
    look();
    admit(hello("cy", 9));
    keep_alive_for(0.5);
    ASSERT_EQ(members.state().phase, generation_phase::regrouping);
  }
  void complete_steps(std::uint64_t steps) {
    for (const auto* host : {"ada", "ben", "cy"})
      beat(host, steps);
  }
  /// Everybody who is there gives signs of life for so long, without completing a step.
  void keep_alive_for(double seconds) {
    keep_alive([&, until = now + seconds] { return now >= until; });
  }
  void keep_alive_until_formed() {
    keep_alive([&, until = now + 60] { return formed || now >= until; });
  }
  /// All others give signs of life until this one is found silent.
  void let_silent(const std::string& host) {
    const auto rank = rank_of(host);
    keep_alive([&] { return members.state().members[rank].state == member_state::lost; }, host);
  }

  cluster::cluster_file file = three_workers();
  cluster::timeouts timeouts = cluster::derive_timeouts(1000);
  membership members{file, timeouts};
  double now = 1000;
  std::vector<std::pair<std::uint32_t, messages::generation_notice>> notices;
  bool announces = true;                     ///< at once, as where no journal keeps it first
  std::optional<messages::placement> formed; ///< the newest
  membership_change change;                  ///< that formed it

private:
  template <class Done>
  void keep_alive(Done&& done, const std::string& but = "") {
    for (int limit = 0; !done() && limit < 1'000'000; ++limit) {
      now += timeouts.beat_interval_ms / 1000.0;
      for (const auto& one : members.state().members)
        if (one.present() && one.host != but)
          beat(one.host, one.steps, std::max<std::uint64_t>(1, one.generation));
      look();
    }
  }
};

} // namespace dynamix::actors::testing
