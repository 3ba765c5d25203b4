#include "tests/unit/actors/small_membership.hpp"

namespace dynamix::actors {
namespace {

using messages::generation_change;
using messages::welcome_verdict;

class Membership : public ::testing::Test, protected testing::small_membership {};

TEST_F(Membership, RanksAreTheWorkersPositionsWhateverTheOrderOfArrival) {
  EXPECT_EQ(admit(hello("cy")).rank, 2U);
  EXPECT_EQ(admit(hello("ada")).rank, 0U);
  EXPECT_EQ(admit(hello("ben")).rank, 1U);
  EXPECT_EQ(members.count(member_state::waiting), 3U);
}

TEST_F(Membership, TellsEachWorkerTheProtocolThatBothSpeak) {
  auto before = hello("ada");
  before.newest_protocol = 0; // a release that did not know it
  EXPECT_EQ(admit(before).protocol, messages::oldest_protocol);
  EXPECT_EQ(admit(hello("ben")).protocol, messages::newest_protocol);
  auto behind = hello("cy");
  behind.protocol = 1;
  behind.newest_protocol = messages::newest_protocol + 1;
  EXPECT_EQ(admit(behind).protocol, messages::newest_protocol);
  EXPECT_EQ(members.count(member_state::waiting), 3U);
}

TEST_F(Membership, RefusesWhoDoesNotFitAndSaysWhy) {
  auto said = hello("ada");
  said.protocol = messages::newest_protocol + 1;
  said.newest_protocol = messages::newest_protocol + 2;
  EXPECT_EQ(admit(said).verdict, welcome_verdict::protocol_mismatch);
  EXPECT_EQ(admit(said).detail.find("host ada speaks protocols 7 to 8, this arbitrator protocol 6; run"), 0U)
      << admit(said).detail;
  said.protocol = 3;
  said.newest_protocol = messages::oldest_protocol - 1;
  EXPECT_EQ(admit(said).verdict, welcome_verdict::protocol_mismatch) << "what it exchanges has other blocks";
  said = hello("ada");
  said.cluster = "other";
  EXPECT_EQ(admit(said).verdict, welcome_verdict::cluster_mismatch);
  said = hello("ada");
  ++said.cluster_digest;
  EXPECT_EQ(admit(said).verdict, welcome_verdict::cluster_mismatch);
  EXPECT_EQ(admit(hello("nobody")).verdict, welcome_verdict::unknown_host);
  EXPECT_EQ(admit(hello("north")).verdict, welcome_verdict::unknown_host) << "a host without a worker";
  said = hello("ada");
  said.heartbeat_interval_ms = 5000;
  EXPECT_EQ(admit(said).verdict, welcome_verdict::heartbeat_mismatch);
  EXPECT_NE(admit(said).detail.find("5000 ms"), std::string::npos);
  said = hello("ada");
  said.generation = 1;
  said.training = true;
  said.members = {0, 3};
  EXPECT_EQ(admit(said).verdict, welcome_verdict::cluster_mismatch) << "there are three ranks";
  EXPECT_EQ(members.count(member_state::awaited), 3U) << "nobody of these was taken in";
}

TEST_F(Membership, RefusesASecondProcessOfTheSameNameButNotAReconnect) {
  EXPECT_EQ(admit(hello("ada", 7)).verdict, welcome_verdict::accepted);
  EXPECT_EQ(admit(hello("ada", 8)).verdict, welcome_verdict::duplicate_host);
  EXPECT_EQ(admit(hello("ada", 7)).verdict, welcome_verdict::accepted);
  members.disconnected(0, "test", now);
  EXPECT_EQ(admit(hello("ada", 8)).verdict, welcome_verdict::accepted) << "the first is gone";
}

/// One that said hello again and again, of its old life and of new ones, wrote 98,272 rows in a moment.
TEST_F(Membership, TakesNoHostInMoreOftenThanItCanHaveRestarted) {
  int taken = 0;
  for (std::uint64_t life = 1; life <= 1000; ++life) {
    taken += admit(hello("ada", life)).verdict == welcome_verdict::accepted ? 1 : 0;
    members.disconnected(0, "test", now);
  }
  EXPECT_LE(taken, 31);
  EXPECT_EQ(admit(hello("ben")).verdict, welcome_verdict::accepted) << "the others are";
  now += 60;
  EXPECT_EQ(admit(hello("ada", 1001)).verdict, welcome_verdict::accepted) << "and so is it once it is calm";
}

TEST_F(Membership, TheFirstGenerationWaitsForAll) {
  admit(hello("ada"));
  admit(hello("cy"));
  keep_alive_for(60);
  EXPECT_FALSE(formed);
  admit(hello("ben"));
  look();
  ASSERT_TRUE(formed);
  EXPECT_EQ(formed->generation, 1U);
  EXPECT_EQ(formed->members, (std::vector<std::uint32_t>{0, 1, 2}));
  EXPECT_EQ(formed->source, 0U);
}

TEST_F(Membership, TheFirstGenerationDoesNotWaitForEver) {
  admit(hello("ada"));
  keep_alive_for(timeouts.join_timeout_ms / 1000.0 + 1);
  ASSERT_TRUE(formed);
  EXPECT_EQ(formed->members, std::vector<std::uint32_t>{0});
}

TEST_F(Membership, ABrokenConnectionEndsTheGenerationAtOnceAndTheOthersGoOn) {
  start();
  complete_steps(10);
  members.disconnected(1, "the connection to it broke", now);
  look();
  ASSERT_EQ(notices.size(), 2U) << "one for each that is left";
  for (const auto& [rank, notice] : notices) {
    EXPECT_NE(rank, 1U);
    EXPECT_EQ(notice.change, generation_change::ended);
    EXPECT_EQ(notice.generation, 1U);
    EXPECT_NE(notice.reason.find("ben is lost"), std::string::npos) << notice.reason;
  }
  formed.reset();
  leave("ada", 10, 11);
  look();
  EXPECT_FALSE(formed) << "cy has not left yet";
  leave("cy", 11, 11);
  look();
  ASSERT_TRUE(formed);
  EXPECT_EQ(formed->generation, 2U);
  EXPECT_EQ(formed->members, (std::vector<std::uint32_t>{0, 2}));
  EXPECT_EQ(formed->source, 2U) << "it had completed the step that ada had in flight";
  EXPECT_EQ(change.steps, 11U);
  EXPECT_EQ(change.steps_lost, 0U);
}

TEST_F(Membership, AtMostTheStepInFlightIsLost) {
  start();
  complete_steps(10);
  members.disconnected(0, "test", now);
  look();
  leave("ben", 10, 11);
  leave("cy", 10, 11);
  look();
  ASSERT_TRUE(formed);
  EXPECT_EQ(change.steps, 10U);
  EXPECT_EQ(change.steps_lost, 1U);
}

TEST_F(Membership, ASilentWorkerIsLostWithinTwiceTheDetectionTime) {
  start();
  const double began = now;
  while (members.state().members[2].state == member_state::training && now < began + 10) {
    now += timeouts.beat_interval_ms / 2000.0;
    beat("ada", 1);
    beat("ben", 1);
    look();
  }
  EXPECT_LE(now - began, 2.0);
  EXPECT_GT(now - began, 1.0);
  EXPECT_NE(members.state().members[2].detail.find("silent"), std::string::npos);
}

TEST_F(Membership, ACallerThatSleptHoldsNoSilenceAgainstAnybody) {
  start();
  now += 30; // the arbitrator's own machine stood still
  look();
  EXPECT_EQ(members.count(member_state::training), 3U);
  EXPECT_EQ(members.state().phase, generation_phase::running);
}

TEST_F(Membership, AHungWorkerThatWakesIsToldAndComesBackByARegroup) {
  start();
  complete_steps(5);
  let_silent("cy");
  leave("ada", 5, 6);
  leave("ben", 5, 6);
  look();
  ASSERT_TRUE(formed);
  EXPECT_EQ(formed->members, (std::vector<std::uint32_t>{0, 1}));
  notices.clear();
  beat("cy", 5, 1);
  look();
  ASSERT_EQ(notices.size(), 1U) << "only the one that slept";
  EXPECT_EQ(notices[0].first, 2U);
  EXPECT_EQ(notices[0].second.generation, 1U);
  notices.clear();
  formed.reset();
  leave("cy", 5, 6, 1);
  keep_alive_for(0.5);
  ASSERT_EQ(notices.size(), 2U);
  EXPECT_EQ(notices[0].second.change, generation_change::regroup);
  leave("ada", 30, 30, 2);
  leave("ben", 30, 30, 2);
  look();
  ASSERT_TRUE(formed);
  EXPECT_EQ(formed->members, (std::vector<std::uint32_t>{0, 1, 2}));
  EXPECT_EQ(change.steps_lost, 0U);
}

TEST_F(Membership, ALossInTheMiddleOfARegroupEndsTheGeneration) {
  begin_regroup();
  notices.clear();
  members.disconnected(0, "test", now);
  look();
  ASSERT_EQ(notices.size(), 1U);
  EXPECT_EQ(notices[0].first, 1U);
  EXPECT_EQ(notices[0].second.change, generation_change::ended);
}

TEST_F(Membership, AMemberThatCouldNotGoOnEndsTheGenerationForAll) {
  start();
  complete_steps(3);
  leave("ben", 3, 4);
  look();
  EXPECT_EQ(notices.size(), 2U);
  EXPECT_EQ(members.state().phase, generation_phase::ending);
}

TEST_F(Membership, AGenerationThatCompletesNothingIsEndedAndTriedAgainEverLater) {
  start();
  keep_alive_for(timeouts.stall_timeout_ms / 1000.0 + 1);
  ASSERT_EQ(members.state().phase, generation_phase::ending);
  double longest = 0;
  for (std::uint64_t generation = 1; generation < 6; ++generation) {
    formed.reset();
    for (const auto* host : {"ada", "ben", "cy"})
      leave(host, 0, 0, generation);
    const double waited_from = now;
    keep_alive_until_formed();
    ASSERT_TRUE(formed);
    EXPECT_GE(now - waited_from, longest);
    longest = std::max(longest, now - waited_from - 0.1);
    leave("ada", 0, 0, generation + 1);
    look();
  }
  EXPECT_GT(longest, 0.5);
}

TEST_F(Membership, AThreadThatDoesNotLetGoIsLostInTheEnd) {
  start();
  complete_steps(3);
  members.disconnected(0, "test", now);
  look();
  leave("ben", 3, 4);
  keep_alive_for(timeouts.stall_timeout_ms / 1000.0 + 1);
  EXPECT_EQ(members.state().members[2].state, member_state::lost);
  ASSERT_TRUE(formed);
  EXPECT_EQ(formed->members, std::vector<std::uint32_t>{1});
}

TEST_F(Membership, APlaceThatCrossedAHelloIsNotTakenForALeave) {
  start();
  auto again = hello("ben");
  again.generation = 0;
  EXPECT_EQ(admit(again).verdict, welcome_verdict::accepted);
  EXPECT_TRUE(members.is_placed(1));
  look();
  EXPECT_EQ(members.state().phase, generation_phase::running);
}

TEST_F(Membership, ANewArbitratorTakesARunningGenerationOver) {
  for (const auto* host : {"ben", "cy"})
    train(host, 4, {1, 2}, 100, {.term = 9, .window = 12});
  look();
  EXPECT_FALSE(formed);
  EXPECT_EQ(members.generation(), 4U);
  EXPECT_EQ(members.state().phase, generation_phase::running);
  EXPECT_EQ(members.highest_term(), 9U);
}

TEST_F(Membership, ANewArbitratorGivesTheOthersTimeToCome) {
  train("ben", 4, {1, 2}, 100, {});
  keep_alive_for(timeouts.rejoin_timeout_ms / 1000.0 - 1);
  EXPECT_EQ(members.state().phase, generation_phase::running);
  keep_alive_for(2);
  EXPECT_EQ(members.state().phase, generation_phase::ending) << "cy has not come";
  leave("ben", 100, 101, 4);
  look();
  ASSERT_TRUE(formed);
  EXPECT_EQ(formed->generation, 5U);
}

TEST_F(Membership, ANewArbitratorThatMeetsOnlyWaitingWorkersGoesOnFromTheFurthest) {
  leave("ada", 40, 41, 3);
  leave("cy", 41, 41, 3);
  keep_alive_for(timeouts.rejoin_timeout_ms / 1000.0 + 0.5);
  ASSERT_TRUE(formed);
  EXPECT_EQ(formed->generation, 4U) << "above every one that was";
  EXPECT_EQ(formed->source, 2U);
  EXPECT_EQ(formed->members, (std::vector<std::uint32_t>{0, 2}));
}

TEST_F(Membership, WhenAllMemoryIsLostTheNewestCheckpointCounts) {
  start();
  complete_steps(50);
  formed.reset();
  for (std::uint32_t rank = 0; rank < 3; ++rank)
    members.disconnected(rank, "test", now);
  look();
  auto said = hello("ada", 17);
  said.checkpoint_steps = 20;
  admit(said);
  said = hello("cy", 18);
  said.checkpoint_steps = 30;
  admit(said);
  look();
  EXPECT_FALSE(formed) << "the others get time to come";
  keep_alive_for(timeouts.rejoin_timeout_ms / 1000.0 + 0.5);
  ASSERT_TRUE(formed);
  EXPECT_EQ(formed->source, 2U);
  EXPECT_EQ(change.steps, 30U);
  EXPECT_EQ(change.steps_lost, 20U) << "told, not hidden";
}

TEST_F(Membership, IsOverWhenAllHaveSaidFarewell) {
  start();
  for (const auto* host : {"ada", "ben", "cy"}) {
    EXPECT_EQ(members.over(now), "");
    EXPECT_TRUE(depart(host));
    EXPECT_FALSE(depart(host)) << "once";
  }
  EXPECT_NE(members.over(now), "");
  EXPECT_EQ(admit(hello("ada", 9)).verdict, welcome_verdict::generation_closed);
}

TEST_F(Membership, WhoMissedTheEndIsToldThatTrainingIsOver) {
  start();
  complete_steps(3);
  leave("cy", 3, 4);
  depart("ada");
  depart("ben");
  notices.clear();
  look();
  ASSERT_EQ(notices.size(), 1U);
  EXPECT_EQ(notices[0].first, 2U);
  EXPECT_EQ(admit(hello("cy")).verdict, welcome_verdict::generation_closed);
  members.disconnected(2, "test", now);
  EXPECT_NE(members.over(now), "");
}

TEST_F(Membership, IsOverWhenNobodyComesBack) {
  start();
  for (std::uint32_t rank = 0; rank < 3; ++rank)
    members.disconnected(rank, "test", now);
  EXPECT_EQ(members.over(now), "") << "they may be started again";
  EXPECT_NE(members.over(now + timeouts.join_timeout_ms / 1000.0 + 1), "");
}

TEST_F(Membership, NamesPeopleInPlainWords) {
  EXPECT_EQ(members.names(member_state::awaited), "ada, ben and cy");
  admit(hello("ben"));
  EXPECT_EQ(members.names(member_state::awaited), "ada and cy");
  EXPECT_EQ(members.names(member_state::waiting), "ben");
  EXPECT_EQ(members.names(member_state::lost), "nobody");
}

TEST_F(Membership, RefusesCountersThatCannotBeTrueAndGoesOnCounting) {
  constexpr auto far = messages::max_counter;
  auto said = hello("ada");
  said.generation = far;
  EXPECT_EQ(admit(said).verdict, messages::welcome_verdict::cluster_mismatch);
  said = hello("ada");
  said.last_decision = {.term = far, .window = 1};
  EXPECT_EQ(admit(said).verdict, messages::welcome_verdict::cluster_mismatch);
  said = hello("ada");
  said.attempted_steps = far;
  EXPECT_EQ(admit(said).verdict, messages::welcome_verdict::cluster_mismatch);
  said = hello("ada");
  said.checkpoint_steps = far;
  EXPECT_NE(admit(said).detail.find("which is implausible"), std::string::npos);
  EXPECT_EQ(members.highest_term(), 0U);
  start();
  EXPECT_EQ(formed->generation, 1U);
}

TEST_F(Membership, StaysWithinWhatAMessageHoldsWhateverIsBelieved) {
  // The most that is believed of a worker that nothing is known about.
  for (const auto* host : {"ada", "ben", "cy"}) {
    auto said = hello(host);
    said.generation = messages::max_counter / 32;
    said.steps = said.attempted_steps = 1ULL << 33;
    said.last_decision = {.term = messages::max_counter / 32, .window = 1};
    ASSERT_EQ(admit(said).verdict, messages::welcome_verdict::accepted);
  }
  look();
  ASSERT_TRUE(formed);
  EXPECT_LT(formed->generation, messages::max_counter);
  // They go on from there.
  complete_steps((1ULL << 33) + 5);
  auto again = hello("ada");
  again.generation = formed->generation;
  again.steps = again.attempted_steps = (1ULL << 33) + 5;
  EXPECT_EQ(admit(again).verdict, messages::welcome_verdict::accepted);
}

/// Steps that nobody has completed made every true step no progress: the generation ended as stalled, again and again.
TEST_F(Membership, IgnoresASignOfLifeThatIsTooFarAhead) {
  start();
  beat("ada", messages::max_counter);
  EXPECT_EQ(members.state().attempted_steps, 0U);
  EXPECT_NE(members.why_implausible(messages::heartbeat{.rank = 0, .incarnation = 7, .steps = messages::max_counter}),
            "");
  EXPECT_NE(members.why_implausible(messages::heartbeat{.rank = 77, .incarnation = 7}), "");
  beat("ada", 10);
  EXPECT_EQ(members.state().attempted_steps, 10U);
}

} // namespace
} // namespace dynamix::actors
