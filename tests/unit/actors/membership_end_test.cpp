/// How long an arbitrator waits for workers that may never come, and how it then says that the run has ended.

#include "actors/aggregator/run_outcome.hpp"
#include "tests/unit/actors/small_membership.hpp"

namespace dynamix::actors {
namespace {

class MembershipEnd : public ::testing::Test, protected testing::small_membership {};

class ServedMembership : public ::testing::Test, protected testing::small_membership {
protected:
  ServedMembership() {
    file.hosts.push_back({.name = "dot", .port = 5, .roles = {cluster::role::server}});
    members = membership(file, timeouts);
  }
  void start_all() {
    for (const auto* host : {"dot", "ada", "ben", "cy"})
      ASSERT_EQ(admit(hello(host)).verdict, messages::welcome_verdict::accepted);
    look();
    ASSERT_TRUE(formed);
  }
};

TEST_F(ServedMembership, PutsHostsThatOnlyServeBehindTheWorkersAndNeverGoesOnFromThem) {
  admit(hello("dot"));
  look();
  EXPECT_FALSE(formed);
  start_all();
  EXPECT_EQ(formed->members, (std::vector<std::uint32_t>{0, 1, 2, 3}));
  EXPECT_EQ(formed->source, 0U);
  EXPECT_FALSE(members.trains(3));
  complete_steps(10);
  members.disconnected(0, "test", now);
  look();
  for (const auto* host : {"ben", "cy", "dot"})
    leave(host, std::string(host) == "dot" ? 0 : 10, std::string(host) == "dot" ? 0 : 11);
  formed.reset();
  keep_alive_until_formed();
  ASSERT_TRUE(formed);
  EXPECT_EQ(formed->members, (std::vector<std::uint32_t>{1, 2, 3}));
  EXPECT_EQ(formed->source, 1U);
  EXPECT_EQ(change.steps_lost, 1U);
}

TEST_F(ServedMembership, LosesAtMostTheStepInFlightWithAHostThatServesAndTakesItBack) {
  start_all();
  complete_steps(10);
  members.disconnected(3, "killed", now);
  look();
  EXPECT_EQ(members.state().reason, "dot is lost: killed");
  for (const auto* host : {"ada", "ben", "cy"})
    leave(host, 10, 11);
  formed.reset();
  look();
  ASSERT_TRUE(formed);
  EXPECT_EQ(formed->members, (std::vector<std::uint32_t>{0, 1, 2}));
  EXPECT_EQ(change.steps_lost, 1U);
  ASSERT_EQ(admit(hello("dot", 8)).verdict, messages::welcome_verdict::accepted);
  now += timeouts.beat_interval_ms / 1000.0;
  look();
  EXPECT_EQ(members.state().phase, generation_phase::regrouping);
}

TEST_F(ServedMembership, IsOverWithTheWorkersOnceWhoServesHasHeardIt) {
  start_all();
  complete_steps(10);
  for (const auto* host : {"ada", "ben", "cy"})
    EXPECT_TRUE(depart(host));
  EXPECT_EQ(members.over(now), "") << "dot is still there";
  EXPECT_TRUE(depart("dot"));
  EXPECT_EQ(members.over(now), "training has ended");
}

TEST_F(ServedMembership, IsOverWhereOnlyHostsThatServeAreLeft) {
  start_all();
  for (std::uint32_t rank = 0; rank < 3; ++rank)
    members.departed({.host = members.state().members[rank].host,
                      .rank = rank,
                      .succeeded = false,
                      .reason = "broken",
                      .decisions = {}},
                     now);
  EXPECT_EQ(members.over(now), "all workers have left or failed");
}

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
