/// One member that lies, or is wrong, keeps the others from training for a while, and not for ever.

#include "actors/aggregator/disruption.hpp"
#include "tests/unit/actors/small_membership.hpp"

#include <map>
#include <tuple>

namespace dynamix::actors {
namespace {

enum class way : std::uint8_t {
  is_not_found,    ///< says an address at which nobody is: in the end all come out, whoever comes first
  hello_again,     ///< comes out at once
  hello_by_steps,  ///< comes out with each step
  holds_on,        ///< sends nothing to the others, says that it gets on, and never comes out
  comes_and_goes,  ///< breaks its connection once it has a place
};

/// Of three workers one is bad. The others complete a step a beat whenever a generation can, and come out when told.
class Disruption : public ::testing::TestWithParam<std::tuple<way, const char*>>, protected testing::small_membership {
protected:
  struct worker {
    std::uint64_t generation = 0; ///< that it trains in; 0: none
    std::uint64_t newest = 0;     ///< that it was in
    std::uint64_t steps = 0;
    std::uint64_t incarnation = 7;
  };

  void say_hello(const std::string& host) {
    auto& one = workers[host];
    auto said = hello(host, one.incarnation);
    said.generation = one.newest;
    said.steps = one.steps;
    said.attempted_steps = one.steps;
    admit(said);
    one.generation = 0;
  }
  /// Notices and places that have come since.
  void take() {
    for (const auto& [rank, notice] : std::exchange(notices, {})) {
      const auto& host = members.state().members[rank].host;
      const bool stays = host == bad && how == way::holds_on && workers[host].generation == members.generation();
      if (workers[host].generation > 0 && !stays)
        say_hello(host);
    }
    if (const auto placement = std::exchange(formed, std::nullopt)) {
      for (const auto rank : placement->members) {
        auto& one = workers[members.state().members[rank].host];
        one.generation = one.newest = placement->generation;
        one.steps = change.steps;
      }
      formed_seconds = now;
    }
  }
  bool is_in(const std::string& host) { return workers[host].generation == members.generation(); }

  void misbehave() {
    auto& one = workers[bad];
    const double age = now - formed_seconds;
    if (how == way::is_not_found && age > 5) {
      for (const auto* host : {"ada", "ben", "cy"})
        if (is_in(host))
          say_hello(host);
    } else if (how == way::hello_again) {
      say_hello(bad);
    } else if (how == way::hello_by_steps && age > 0.5) {
      say_hello(bad);
    } else if (how == way::holds_on) {
      ++one.steps;
    } else if (how == way::comes_and_goes && age > 0.5) {
      members.disconnected(rank_of(bad), "test", now);
      ++one.incarnation;
      say_hello(bad);
    }
  }

  void run_a_beat() {
    now += timeouts.beat_interval_ms / 1000.0;
    if (is_in(bad) && members.generation() > 0)
      misbehave();
    const bool hindered = is_in(bad) && how != way::hello_by_steps;
    const bool whole = std::ranges::all_of(
        members.state().placed, [&](auto rank) { return is_in(members.state().members[rank].host); });
    const bool gets_on = members.generation() > 0 && whole && !hindered;
    for (const auto* host : {"ada", "ben", "cy"}) {
      auto& one = workers[host];
      if (gets_on && is_in(host))
        ++one.steps;
      if (one.generation == 0 && members.state().members[rank_of(host)].state != member_state::waiting)
        say_hello(host); // the last one was refused
      beat(host, one.steps, std::max<std::uint64_t>(1, one.newest));
    }
    completed += gets_on ? 1 : 0;
    look();
    take();
  }

  void run_for(double seconds) {
    for (const double until = now + seconds; now < until;)
      run_a_beat();
  }

  const way how = std::get<0>(GetParam());
  const std::string bad = std::get<1>(GetParam());
  std::map<std::string, worker> workers;
  double formed_seconds = 0;
  std::uint64_t completed = 0; ///< steps
};

TEST_P(Disruption, OfOneMemberIsLeftOutByTheOthersEverLonger) {
  for (const auto* host : {"ada", "ben", "cy"})
    say_hello(host);
  run_for(3 * 3600);
  const auto before = completed;
  run_for(3600);
  const double possible = 3600 / (timeouts.beat_interval_ms / 1000.0);
  EXPECT_GT(static_cast<double>(completed - before), 0.8 * possible);
  EXPECT_GE(members.state().members[rank_of(bad)].holds, 2U);
}

INSTANTIATE_TEST_SUITE_P(Each, Disruption,
                         ::testing::Combine(::testing::Values(way::is_not_found, way::hello_again, way::hello_by_steps,
                                                              way::holds_on, way::comes_and_goes),
                                            ::testing::Values("ada", "ben", "cy")));

class LeftOut : public ::testing::Test, protected testing::small_membership {
protected:
  /// So many generations come to nothing.
  void fail(int generations, double seconds = 45) {
    for (int i = 0; i < generations; ++i) {
      keep_alive_for(seconds);
      formed.reset();
      for (const auto* host : {"ada", "ben", "cy"})
        leave(host, 0, 0, members.generation());
      keep_alive_until_formed();
      ASSERT_TRUE(formed);
    }
  }
};

TEST_F(LeftOut, IsNobodyBeforeThreeGenerationsHaveComeToNothing) {
  start();
  fail(2);
  EXPECT_EQ(formed->members.size(), 3U);
  fail(1);
  EXPECT_EQ(formed->members, (std::vector<std::uint32_t>{0, 1}));
  ASSERT_EQ(change.held.size(), 1U);
  const auto why = change.held[0].detail;
  EXPECT_TRUE(why.starts_with("3 generations in a row have come to nothing; the next one is formed without cy")) << why;
}

TEST_F(LeftOut, IsNobodyForTroubleThatIsSoonOver) {
  start();
  fail(12, 1);
  EXPECT_EQ(formed->members.size(), 3U);
}

/// As of a host that dies again and again, and of peers that come out of it before anybody knows.
TEST_F(LeftOut, IsNobodyWhileTrainingGetsOn) {
  start();
  for (std::uint64_t i = 1; i <= 40; ++i) {
    complete_steps(100 * i);
    keep_alive_for(6);
    formed.reset();
    for (const auto* host : {"ada", "ben"})
      leave(host, 100 * i, 100 * i, members.generation());
    look();
    members.disconnected(2, "test", now);
    admit(hello("cy", 7 + i));
    keep_alive_until_formed();
    ASSERT_TRUE(formed);
    ASSERT_EQ(formed->members.size(), 3U) << "behind death " << i;
  }
}

TEST_F(LeftOut, IsAnotherWhereThatDidNotHelp) {
  start();
  fail(3);
  fail(1);
  EXPECT_EQ(formed->members, (std::vector<std::uint32_t>{0, 2}));
  fail(1);
  EXPECT_EQ(formed->members, (std::vector<std::uint32_t>{1, 2}));
}

TEST_F(LeftOut, IsNobodyWithoutWhomAllWouldBeginAnew) {
  for (const auto* host : {"ada", "ben", "cy"}) {
    auto said = hello(host);
    said.checkpoint_steps = std::string(host) == "cy" ? 1000 : 0;
    admit(said);
  }
  keep_alive_until_formed();
  ASSERT_TRUE(formed);
  EXPECT_EQ(formed->source, 2U);
  for (int i = 0; i < 8; ++i) {
    keep_alive_for(45);
    formed.reset();
    for (const auto* host : {"ada", "ben", "cy"}) {
      auto said = hello(host);
      said.generation = members.generation();
      said.checkpoint_steps = std::string(host) == "cy" ? 1000 : 0;
      admit(said);
    }
    keep_alive_until_formed();
    ASSERT_TRUE(formed);
    EXPECT_EQ(formed->source, 2U);
  }
}

TEST_F(LeftOut, ComesBackWhenItsTimeIsOver) {
  start();
  fail(3);
  ASSERT_EQ(formed->members.size(), 2U);
  admit(hello("cy"));
  formed.reset();
  for (std::uint64_t steps = 1; members.state().phase == generation_phase::running; ++steps) {
    beat("ada", steps);
    beat("ben", steps);
    keep_alive_for(timeouts.beat_interval_ms / 1000.0);
    ASSERT_LT(steps, 10'000U);
  }
  EXPECT_EQ(members.state().reason, "cy joins");
  EXPECT_GT(now - members.state().formed_seconds, 2 * timeouts.stall_timeout_ms / 1000.0);
}

TEST_F(LeftOut, IsNobodyWhereAllOthersHaveGone) {
  start();
  fail(3);
  members.disconnected(0, "test", now);
  members.disconnected(1, "test", now);
  formed.reset();
  keep_alive_until_formed();
  ASSERT_TRUE(formed);
  EXPECT_EQ(formed->members, std::vector<std::uint32_t>{2});
}

TEST_F(LeftOut, IsNobodyOfAScriptsGroup) {
  file.training.trainer = cluster::trainer_kind::client;
  members = membership(file, timeouts);
  start();
  fail(6);
  EXPECT_EQ(formed->members.size(), 3U);
}

TEST_F(LeftOut, IsTheOnlyOneThatSaysThatItGetsOn) {
  start();
  for (std::uint64_t steps = 1; steps < 5 * timeouts.stall_timeout_ms / timeouts.beat_interval_ms; ++steps) {
    beat("cy", steps);
    keep_alive_for(timeouts.beat_interval_ms / 1000.0);
  }
  EXPECT_NE(members.state().phase, generation_phase::running) << "for the others no step has been completed";
}

/// It threw all others out of theirs, and stayed in its own for ever.
TEST_F(LeftOut, IsAGenerationThatNobodyHasFormed) {
  start();
  complete_steps(10);
  auto said = hello("cy");
  said.generation = 9;
  said.training = true;
  said.members = {2};
  said.steps = said.attempted_steps = 10;
  admit(said);
  look();
  EXPECT_EQ(members.generation(), 1U);
  ASSERT_EQ(notices.size(), 1U);
  EXPECT_EQ(notices[0].first, 2U) << "it is told that its own is over";
}

/// Also of an arbitrator that has taken over what it was told of.
TEST_F(LeftOut, IsWhoDoesNotComeOutToRegroup) {
  train("cy", 9, {2}, 100, {});
  leave("ada", 0, 0, 0);
  std::uint64_t steps = 100;
  for (double until = now + 4 * timeouts.stall_timeout_ms / 1000.0; now < until && !formed; ++steps) {
    beat("cy", steps, 9);
    keep_alive_for(timeouts.beat_interval_ms / 1000.0);
  }
  ASSERT_TRUE(formed);
  EXPECT_EQ(formed->members, std::vector<std::uint32_t>{0});
}

} // namespace
} // namespace dynamix::actors
