/// How long an arbitrator waits for workers that may never come, and how it then says that the run has ended.

#include "actors/run_outcome.hpp"
#include "tests/unit/actors/small_membership.hpp"

namespace dynamix::actors {
namespace {

class MembershipEnd : public ::testing::Test, protected testing::small_membership {};

/// A new arbitrator to whom nobody comes, because all have said farewell to the one before and ended.
TEST_F(MembershipEnd, IsOverSoonWhereTheArbitratorBeforeHasSeenTheEnd) {
  members = membership(file, timeouts, 4, 2);
  look();
  const double patience = timeouts.rejoin_timeout_ms / 1000.0;
  EXPECT_EQ(members.over(now + patience - 0.1), "") << "who has not ended yet may come";
  EXPECT_NE(members.over(now + patience + 0.1), "");
  const auto outcome = judge_run(members, {}, false, "why");
  EXPECT_TRUE(outcome.succeeded);
  EXPECT_NE(outcome.reason.find("cy finished"), std::string::npos) << outcome.reason;
}

TEST_F(MembershipEnd, HearsOutWhoFinishesUnderANewArbitrator) {
  members = membership(file, timeouts, 4, 2);
  look();
  train("ada", 4, {0, 2}, 100, {});
  EXPECT_EQ(members.over(now + 60), "") << "it is here";
  EXPECT_TRUE(depart("ada"));
  EXPECT_NE(members.over(now), "");
}

TEST_F(MembershipEnd, ForgetsTheEndThatWasKeptWhereTrainingGoesOn) {
  members = membership(file, timeouts, 4, 2);
  look();
  admit(hello("ada", 9));
  admit(hello("ben", 9));
  admit(hello("cy", 9));
  look();
  ASSERT_TRUE(formed);
  for (std::uint32_t rank = 0; rank < 3; ++rank)
    members.disconnected(rank, "test", now);
  EXPECT_EQ(members.over(now + 60), "") << "they may be started again";
  EXPECT_FALSE(judge_run(members, {}, false, "why").succeeded);
}

TEST_F(MembershipEnd, WaitsNotForEverWhereOthersHaveTrainedAndNobodyComes) {
  EXPECT_EQ(members.over(now + 1e6), "") << "at the very first start people start the workers";
  members = membership(file, timeouts, 4);
  look();
  const double patience = timeouts.join_timeout_ms / 1000.0;
  EXPECT_EQ(members.over(now + patience - 1), "");
  const auto why = members.over(now + patience + 1);
  EXPECT_EQ(why, "no worker has come for 601 s");
  const auto outcome = judge_run(members, {}, false, why);
  EXPECT_FALSE(outcome.succeeded);
  EXPECT_EQ(outcome.reason, why);
}

TEST_F(MembershipEnd, OneThatWasStoppedBeforeAllHadJoinedHasNotFailed) {
  EXPECT_TRUE(judge_run(members, {}, true, "why").stopped);
  EXPECT_FALSE(judge_run(members, {}, false, "why").stopped);
}

/// A leading host that failed once told the other replicas that the run was over.
TEST(EndsRun, OnlyWhereTheArbitratorHasEndedOrAStopWasAskedFor) {
  const host_events::snapshot failed{.failure = "its aggregator ended"};
  const host_events::snapshot over{.arbitrator = part_outcome{true, "all workers have finished"}};
  EXPECT_FALSE(ends_run(failed, false, false)) << "another replica leads on";
  EXPECT_TRUE(ends_run(over, false, false));
  EXPECT_TRUE(ends_run(failed, false, true));
  EXPECT_FALSE(ends_run(over, true, true)) << "this host leaves, the others go on";
}

} // namespace
} // namespace dynamix::actors
