/// Whether training is complete: what one worker says of it ends the run for nobody but itself.

#include "actors/aggregator/completion.hpp"
#include "actors/aggregator/run_outcome.hpp"
#include "tests/unit/actors/small_membership.hpp"

#include <gmock/gmock.h>

namespace dynamix::actors {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Completion : public ::testing::Test, protected testing::small_membership {
protected:
  bool say_complete(const std::string& host, std::uint64_t steps) {
    farewells.push_back(
        {.host = host, .rank = rank_of(host), .succeeded = true, .reason = "done", .steps = steps, .decisions = {}});
    return members.departed(farewells.back(), now);
  }
  member_state state_of(const std::string& host) const { return members.state().members[rank_of(host)].state; }

  std::vector<messages::farewell> farewells;
};

TEST_F(Completion, SaidByOneWorkerAtItsFirstStepEndsItAloneAndTheOthersGoOn) {
  start();
  complete_steps(1);
  ASSERT_TRUE(say_complete("ada", 1));
  look();
  EXPECT_FALSE(members.ending(now));
  leave("ben", 1, 2);
  leave("cy", 1, 2);
  formed.reset();
  keep_alive_until_formed();
  ASSERT_TRUE(formed);
  EXPECT_EQ(formed->members, (std::vector<std::uint32_t>{1, 2}));
  EXPECT_EQ(change.steps, 1U);
  EXPECT_EQ(state_of("ada"), member_state::failed);
  EXPECT_THAT(members.state().reason, HasSubstr("ada is lost: it said that training was complete at step 1, and 2 of 3 "
                                                "machines go on from step 1"));
  EXPECT_EQ(members.over(now), "");
}

TEST_F(Completion, SaidByOneOfTwoIsOutvotedByTheOtherWhichGoesOn) {
  start();
  complete_steps(5);
  members.disconnected(2, "killed", now);
  look();
  leave("ada", 5, 6);
  leave("ben", 5, 6);
  look();
  ASSERT_EQ(formed->members, (std::vector<std::uint32_t>{0, 1}));
  say_complete("ada", 1'000'000);
  leave("ben", 5, 6, 2);
  formed.reset();
  keep_alive_until_formed();
  ASSERT_TRUE(formed);
  EXPECT_EQ(formed->members, (std::vector<std::uint32_t>{1}));
  EXPECT_EQ(change.steps, 5U);
}

TEST_F(Completion, SaidAsAStopThatNobodyAskedForCountsAsMuch) {
  start();
  complete_steps(1);
  members.departed({.host = "ada",
                    .rank = 0,
                    .succeeded = true,
                    .reason = "stopped",
                    .steps = 1,
                    .decisions = {},
                    .end = messages::farewell_end::stopped},
                   now);
  leave("ben", 1, 1);
  leave("cy", 1, 1);
  formed.reset();
  keep_alive_until_formed();
  EXPECT_TRUE(formed);
}

TEST_F(Completion, StandsWhereAStopWasAskedOfAll) {
  start();
  members.stop_asked();
  say_complete("ada", 1);
  EXPECT_TRUE(members.ending(now));
}

TEST_F(Completion, IsNotTheReasonOfARunThatWasStopped) {
  start();
  members.stop_asked();
  for (const auto* host : {"ada", "ben", "cy"}) {
    farewells.push_back({.host = host,
                         .rank = rank_of(host),
                         .succeeded = true,
                         .reason = "stopped",
                         .steps = 7,
                         .decisions = {},
                         .end = messages::farewell_end::stopped});
    members.departed(farewells.back(), now);
  }
  const auto outcome = judge_run(members, farewells, true, "why");
  EXPECT_TRUE(outcome.succeeded);
  EXPECT_TRUE(outcome.stopped);
  EXPECT_EQ(outcome.reason, "training was stopped after step 7");
  for (auto& said : farewells)
    said.reason = "50 steps in a row were dropped";
  EXPECT_EQ(judge_run(members, farewells, false, "why").reason,
            "training was stopped after step 7: 50 steps in a row were dropped");
}

TEST_F(Completion, OfASingleWorkerStandsAtOnce) {
  file.hosts.resize(2);
  members = membership(file, timeouts);
  admit(hello("ada"));
  look();
  ASSERT_TRUE(formed);
  say_complete("ada", 7);
  EXPECT_TRUE(members.ending(now));
  EXPECT_EQ(members.over(now), "training has ended");
}

/// The last all-reduce broke for one of them, or its word came first.
TEST_F(Completion, StandsWhereMostSayItWithinTheSilenceTimeOut) {
  start();
  complete_steps(100);
  say_complete("ada", 120);
  leave("cy", 119, 120);
  notices.clear();
  keep_alive_for(timeouts.silence_ms / 2000.0);
  EXPECT_THAT(notices, ::testing::Each(::testing::Pair(1U, ::testing::_))) << "nobody is told that it is over yet";
  say_complete("ben", 120);
  look();
  EXPECT_TRUE(members.ending(now));
  ASSERT_FALSE(notices.empty());
  EXPECT_EQ(notices.back().first, 2U);
  EXPECT_EQ(notices.back().second.reason, "training is over");
  keep_alive_for(2 * timeouts.silence_ms / 1000.0);
  EXPECT_EQ(state_of("ada"), member_state::departed);
  EXPECT_TRUE(judge_run(members, farewells, false, "why").succeeded);
}

TEST_F(Completion, IsNotJudgedWhileTheOthersTrainOn) {
  start();
  complete_steps(100);
  say_complete("ada", 120); // the others' signs of life are older
  keep_alive_for(10 * timeouts.silence_ms / 1000.0);
  EXPECT_EQ(state_of("ada"), member_state::departed);
  EXPECT_EQ(members.over(now), "");
  say_complete("ben", 120);
  say_complete("cy", 120);
  EXPECT_EQ(members.over(now), "training has ended");
}

TEST_F(Completion, LetsOthersJoinUntilItStands) {
  start();
  complete_steps(10);
  members.disconnected(2, "killed", now);
  say_complete("ada", 10);
  EXPECT_EQ(admit(hello("cy", 9)).verdict, messages::welcome_verdict::accepted);
  leave("ben", 10, 10);
  formed.reset();
  keep_alive_until_formed();
  ASSERT_TRUE(formed);
  EXPECT_EQ(formed->members, (std::vector<std::uint32_t>{1, 2}));
}

TEST_F(Completion, SaidByOneWaitsForOthersThatWereLostAndIsNoSuccessWhereTheyWereMore) {
  start();
  complete_steps(1);
  say_complete("ada", 1);
  members.disconnected(1, "killed", now);
  members.disconnected(2, "killed", now);
  EXPECT_EQ(members.over(now), "") << "they may come back";
  now += timeouts.rejoin_timeout_ms / 1000.0 + 1;
  EXPECT_EQ(members.over(now), "training has ended");
  const auto outcome = judge_run(members, farewells, false, "why");
  EXPECT_FALSE(outcome.succeeded);
  EXPECT_THAT(outcome.reason, HasSubstr("ben and cy, who trained with it, were lost"));
}

TEST_F(Completion, SaidByMostIsASuccessAlsoWhereOneWasLost) {
  start();
  complete_steps(9);
  say_complete("ada", 10);
  say_complete("ben", 10);
  members.disconnected(2, "killed", now);
  EXPECT_EQ(members.over(now), "training has ended");
  EXPECT_TRUE(judge_run(members, farewells, false, "why").succeeded);
}

TEST_F(Completion, SaidByAProcessCountsNothingOnceItIsFoundOut) {
  start();
  say_complete("ada", 1);
  leave("ben", 1, 1);
  leave("cy", 1, 1);
  formed.reset();
  keep_alive_until_formed();
  ASSERT_TRUE(formed);
  EXPECT_EQ(admit(hello("ada", 7)).verdict, messages::welcome_verdict::generation_closed);
  EXPECT_EQ(admit(hello("ada", 8)).verdict, messages::welcome_verdict::accepted) << "another process may come";
}

TEST_F(Completion, IsVotedOnByMachinesNotByWorkers) {
  file.hosts[1].slots = {{.name = "ada/0"}, {.name = "ada/1"}, {.name = "ada/2"}};
  file.hosts.pop_back();
  members = membership(file, timeouts);
  for (const auto* host : {"ada/0", "ada/1", "ada/2", "ben"})
    ASSERT_EQ(admit(hello(host)).verdict, messages::welcome_verdict::accepted) << host;
  look();
  ASSERT_TRUE(formed);
  for (const auto* host : {"ada/0", "ada/1", "ada/2"})
    say_complete(host, 1);
  EXPECT_FALSE(members.ending(now));
  leave("ben", 1, 1);
  formed.reset();
  keep_alive_until_formed();
  ASSERT_TRUE(formed);
  EXPECT_EQ(formed->members, (std::vector<std::uint32_t>{3}));
}

TEST_F(Completion, SaidByAHostThatOnlyServesIsNobodysBusiness) {
  file.hosts.push_back({.name = "dot", .port = 5, .roles = {cluster::role::server}});
  members = membership(file, timeouts);
  admit(hello("dot"));
  start();
  complete_steps(3);
  say_complete("dot", 3);
  EXPECT_FALSE(members.ending(now));
  for (const auto* host : {"ada", "ben", "cy"})
    leave(host, 3, 4);
  formed.reset();
  keep_alive_until_formed();
  ASSERT_TRUE(formed);
  EXPECT_EQ(formed->members, (std::vector<std::uint32_t>{0, 1, 2}));
}

/// The others of a generation that goes on may be on their way to an arbitrator that has begun anew.
TEST_F(Completion, SaidToANewArbitratorWaitsForThoseWhoTrainedUnderTheOneBefore) {
  train("ada", 5, {0, 1, 2}, 40, {3, 7});
  say_complete("ada", 40);
  look();
  EXPECT_EQ(members.over(now), "");
  train("ben", 5, {0, 1, 2}, 40, {3, 7});
  train("cy", 5, {0, 1, 2}, 40, {3, 7});
  EXPECT_FALSE(members.ending(now));
}

// Other progress that one tells.

TEST_F(Completion, OfStepsThatOneIsAheadOfAllOthersIsNotWhatIsGoneOnFrom) {
  start();
  complete_steps(100);
  leave("ada", 100'000, 100'000);
  leave("ben", 100, 101);
  leave("cy", 101, 101);
  look();
  ASSERT_TRUE(formed);
  EXPECT_EQ(formed->source, 2U);
  EXPECT_EQ(change.steps, 101U);
}

TEST_F(Completion, OfStepsFromWhichAGenerationBeganIsTheSourcesWord) {
  start();
  complete_steps(100);
  members.disconnected(1, "killed", now);
  members.disconnected(2, "killed", now);
  look();
  leave("ada", 600, 600);
  admit(hello("ben", 8));
  admit(hello("cy", 8));
  formed.reset();
  keep_alive_until_formed();
  ASSERT_TRUE(formed);
  // The others never had its state.
  leave("ada", 600, 600, 2);
  for (const auto* host : {"ben", "cy"}) {
    auto said = hello(host, 8);
    said.generation = 2;
    ASSERT_EQ(admit(said).verdict, messages::welcome_verdict::accepted);
  }
  formed.reset();
  keep_alive_until_formed();
  ASSERT_TRUE(formed);
  EXPECT_EQ(formed->source, 0U);
  EXPECT_EQ(change.steps, 600U);
}

TEST_F(Completion, NeverGoesOnFromAHostThatOnlyServesWhateverItSays) {
  file.hosts.push_back({.name = "dot", .port = 5, .roles = {cluster::role::server}});
  members = membership(file, timeouts);
  auto liar = hello("dot");
  liar.checkpoint_steps = 1'000'000;
  liar.generation = 1;
  liar.steps = liar.attempted_steps = 2'000'000;
  ASSERT_EQ(admit(liar).verdict, messages::welcome_verdict::accepted);
  start();
  EXPECT_EQ(formed->source, 0U);
  EXPECT_EQ(change.steps, 0U);
}

/// It made every true step no progress, and the generation ended as stalled.
TEST_F(Completion, OfStepsFarAheadIsRefusedInAHelloAndDoesNotHideTheOthersProgress) {
  start();
  complete_steps(3);
  auto said = hello("ada");
  said.generation = 1;
  said.training = true;
  said.members = {0, 1, 2};
  said.steps = said.attempted_steps = 1ULL << 40;
  EXPECT_THAT(admit(said).detail, HasSubstr("which is implausible"));
  said.steps = said.attempted_steps = 500'000; // may be true
  EXPECT_EQ(admit(said).verdict, messages::welcome_verdict::accepted);
  std::uint64_t steps = 3;
  for (const double until = now + 2 * timeouts.stall_timeout_ms / 1000.0; now < until;) {
    keep_alive_for(1);
    beat("ben", ++steps);
    beat("cy", steps);
  }
  EXPECT_EQ(members.state().phase, generation_phase::running);
}

TEST_F(Completion, OfACheckpointBeyondWhatAnyRunReachesIsRefused) {
  auto said = hello("ada");
  said.checkpoint_steps = 1ULL << 40;
  EXPECT_THAT(admit(said).detail, HasSubstr("which is implausible"));
}

} // namespace
} // namespace dynamix::actors
