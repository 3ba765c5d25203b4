/// What tests/simulation found, as small as it can be told.

#include "messages/leave.hpp"
#include "tests/unit/actors/small_membership.hpp"

namespace dynamix::actors {
namespace {

using messages::welcome_verdict;

class MembershipRegression : public ::testing::Test, protected testing::small_membership {};

/// who missed a generation said again what was in flight at the end of the one before.
TEST_F(MembershipRegression, AStepInFlightIsCountedOnce) {
  start();
  complete_steps(10);
  members.disconnected(0, "test", now);
  look();
  leave("ben", 10, 11);
  leave("cy", 10, 11);
  look();
  members.disconnected(1, "test", now);
  look();
  leave("cy", 10, 10, 2);
  leave("ada", 10, 11, 1);
  now += 1;
  look();
  ASSERT_TRUE(formed);
  EXPECT_EQ(formed->generation, 3U);
  EXPECT_EQ(change.steps_lost, 0U);
}

/// the notice named generation 0, which is not a message.
TEST_F(MembershipRegression, ANewcomerThatWakesBeforeItHadAPlaceIsTold) {
  EXPECT_EQ(admit(hello("ada")).verdict, welcome_verdict::accepted);
  let_silent("ada");
  beat("ada", 0);
  look();
  ASSERT_EQ(notices.size(), 1U);
  EXPECT_GT(notices[0].second.generation, 0U);
}

TEST_F(MembershipRegression, WhoLeavesItsPlaceWithAnOlderHelloUnderWayIsAskedAgain) {
  start();
  members.disconnected(0, "test", now);
  look();
  notices.clear();
  auto older = hello("ben");
  EXPECT_EQ(admit(older).verdict, welcome_verdict::accepted);
  look();
  ASSERT_EQ(notices.size(), 1U);
  EXPECT_EQ(notices[0].first, 1U);
  EXPECT_EQ(notices[0].second.change, messages::generation_change::ended);
}

/// a new arbitrator decided for those that had come, under a term that one still missing had obeyed already.
TEST_F(MembershipRegression, AnAdoptedGenerationIsCompleteOnceAllOfItHaveCome) {
  train("ada", 5, {0, 2}, 40, {3, 7});
  EXPECT_FALSE(members.complete()) << "cy may have obeyed a newer term";
  train("ben", 4, {0, 1}, 30, {2, 7});
  EXPECT_FALSE(members.complete()) << "ben is none of them";
  train("cy", 5, {0, 2}, 40, {4, 7});
  EXPECT_TRUE(members.complete());
  members.disconnected(2, "test", now);
  EXPECT_TRUE(members.complete());
}

TEST_F(MembershipRegression, AnAdoptedGenerationWithOneThatNeverCameIsNeverComplete) {
  train("ada", 5, {0, 2}, 40, {3, 7});
  keep_alive_for(timeouts.rejoin_timeout_ms / 1000.0 + 1);
  ASSERT_EQ(members.state().members[2].state, member_state::lost);
  EXPECT_FALSE(members.complete());
  EXPECT_EQ(members.state().phase, generation_phase::ending);
}

/// the farewell of a process that had left came after the next one's hello, which then waited for ever.
TEST_F(MembershipRegression, IgnoresTheStaleFarewellOfAPreviousIncarnation) {
  start();
  members.disconnected(0, "test", now);
  look();
  ASSERT_EQ(admit(hello("ada", 8)).verdict, welcome_verdict::accepted);
  // Neither has completed a step: only the incarnation tells them apart.
  messages::farewell stale{
      .host = "ada", .reason = std::string{messages::leave_mark} + "asked", .decisions = {}, .incarnation = 7};
  EXPECT_FALSE(members.departed(stale, now));
  EXPECT_EQ(members.state().members[0].state, member_state::waiting);
  stale.incarnation = 8;
  EXPECT_TRUE(members.departed(stale, now));
}

TEST_F(MembershipRegression, IgnoresAStaleFarewellWhileTheNextIncarnationTrains) {
  admit(hello("ada", 8));
  admit(hello("ben"));
  admit(hello("cy"));
  look();
  ASSERT_TRUE(formed);
  EXPECT_FALSE(
      members.departed({.host = "ada", .succeeded = true, .reason = "done", .decisions = {}, .incarnation = 7}, now));
  EXPECT_EQ(members.state().members[0].state, member_state::training);
}

TEST_F(MembershipRegression, BelievesAFarewellThatNamesNoIncarnation) {
  start();
  EXPECT_TRUE(members.departed({.host = "ada", .succeeded = true, .reason = "done", .decisions = {}}, now))
      << "an older sender";
}

/// a notice was lost with the shard that was to pass it on, and the generation never regrouped.
TEST_F(MembershipRegression, WhoStaysInItsGenerationIsToldToRegroupAgain) {
  begin_regroup();
  ASSERT_EQ(notices.size(), 4U) << "of the end of the first generation, and to regroup";
  notices.clear();
  keep_alive_for(timeouts.silence_ms / 1000.0 / 2);
  EXPECT_TRUE(notices.empty()) << "it may be on its way";
  keep_alive_for(timeouts.silence_ms / 1000.0);
  ASSERT_EQ(notices.size(), 2U);
  EXPECT_EQ(notices[1].first, 1U);
  EXPECT_EQ(notices[1].second.change, messages::generation_change::regroup);
}

/// a hello came out of a connection that had been cut off, behind the next ones: its worker was told of the end of a
/// generation that it had left, and who waited beside the newest one waited for ever.
TEST_F(MembershipRegression, AHelloOfBeforeItsPlaceHidesNobodyWhoTrainsThere) {
  begin_regroup();
  notices.clear();
  train("ada", 1, {0, 1, 2}, 1, {});
  beat("ada", 6, 2);
  look();
  ASSERT_EQ(notices.size(), 1U);
  EXPECT_EQ(notices[0].first, 0U);
  EXPECT_EQ(notices[0].second.generation, 2U);
  EXPECT_EQ(notices[0].second.change, messages::generation_change::regroup);
}

/// a generation that ended while the journal still kept it was told so before its members knew of it.
TEST_F(MembershipRegression, AGenerationThatIsNotAnnouncedYetIsToldNothing) {
  announces = false;
  start();
  members.disconnected(2, "test", now);
  look();
  EXPECT_EQ(members.state().phase, generation_phase::ending);
  EXPECT_TRUE(notices.empty());
  members.announced();
  look();
  EXPECT_EQ(notices.size(), 2U);
}

} // namespace
} // namespace dynamix::actors
