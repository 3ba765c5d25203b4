#include "messages/leave.hpp"
#include "tests/unit/actors/small_membership.hpp"

namespace dynamix::actors {
namespace {

TEST(Leave, IsToldByAFarewellThatOthersTakeForAFailure) {
  messages::farewell said{.host = "ada", .reason = std::string{messages::leave_mark} + "asked", .decisions = {}};
  EXPECT_TRUE(messages::tells_leave(said));
  said.succeeded = true;
  EXPECT_FALSE(messages::tells_leave(said));
  EXPECT_FALSE(messages::tells_leave({.host = "ada", .reason = "out of memory", .decisions = {}}));
}

TEST(FarewellEnd, IsReadFromTheReasonOfAnOlderSenderOnly) {
  using messages::farewell_end;
  const auto end_of = [](bool succeeded, const char* reason, farewell_end said) {
    return messages::end_of({.succeeded = succeeded, .reason = reason, .decisions = {}, .end = said});
  };
  constexpr auto nothing = farewell_end::unspecified;
  EXPECT_EQ(end_of(true, "epochs completed", nothing), farewell_end::completed);
  EXPECT_EQ(end_of(true, "stopped", nothing), farewell_end::stopped);
  EXPECT_EQ(end_of(false, "left: asked", nothing), farewell_end::left);
  EXPECT_EQ(end_of(false, "stopped: before training began", nothing), farewell_end::cancelled);
  EXPECT_EQ(end_of(false, "out of memory", nothing), farewell_end::failed);
  EXPECT_EQ(end_of(false, "left: for a file that is not there", farewell_end::failed), farewell_end::failed);
}

class LeavingMember : public ::testing::Test, protected testing::small_membership {
protected:
  bool say_left(const std::string& host) {
    return members.departed({.host = host,
                             .rank = rank_of(host),
                             .reason = std::string{messages::leave_mark} + "its host was asked to end",
                             .decisions = {},
                             .incarnation = members.state().members[rank_of(host)].incarnation},
                            now);
  }
};

TEST_F(LeavingMember, IsNotWaitedForAndNothingIsLostWhereItsPeersPartedWithIt) {
  start();
  complete_steps(10);
  formed.reset();
  leave("ada", 12, 12);
  leave("cy", 12, 12);
  look();
  EXPECT_FALSE(formed) << "ben has not left yet";
  EXPECT_TRUE(say_left("ben"));
  look(); // no time has passed
  ASSERT_TRUE(formed);
  EXPECT_EQ(formed->members, (std::vector<std::uint32_t>{0, 2}));
  EXPECT_EQ(change.steps, 12U);
  EXPECT_EQ(change.steps_lost, 0U);
  EXPECT_EQ(members.state().reason, "ben has left");
}

TEST_F(LeavingMember, IsNamedAsTheCauseThoughAPeerOfLowerRankCameOutFirst) {
  start();
  complete_steps(10);
  formed.reset();
  leave("ada", 12, 12); // nobody looks before ben's word is here, too
  EXPECT_TRUE(say_left("ben"));
  look();
  EXPECT_EQ(members.state().reason, "ben has left");
  leave("cy", 12, 12);
  look();
  ASSERT_TRUE(formed);
  EXPECT_EQ(members.state().reason, "ben has left");
}

TEST_F(LeavingMember, TakesAStepWithItThatIsToldAsLostAlsoByANewArbitrator) {
  leave("ada", 9, 9, 2); // nobody else completed step 9 of generation 2
  leave("ben", 8, 8, 2);
  say_left("ada");
  admit(hello("ada", 8)); // as another process
  leave("cy", 8, 8, 2);
  look();
  ASSERT_TRUE(formed);
  EXPECT_EQ(formed->generation, 3U);
  EXPECT_EQ(change.steps, 8U);
  EXPECT_EQ(change.steps_lost, 1U);
}

TEST_F(LeavingMember, WhoGoesFirstEndsTheGenerationForTheOthersAtOnce) {
  start();
  complete_steps(10);
  EXPECT_TRUE(say_left("ben"));
  look();
  ASSERT_EQ(notices.size(), 2U);
  EXPECT_EQ(notices.front().second.reason, "ben has left");
  EXPECT_EQ(notices.front().second.change, messages::generation_change::ended);
}

TEST_F(LeavingMember, JoinsAgainAsAnotherProcessButAHelloOfTheOldOneComesTooLate) {
  start();
  EXPECT_TRUE(say_left("ben"));
  EXPECT_FALSE(say_left("ben")) << "once";
  EXPECT_EQ(admit(hello("ben", 7)).verdict, messages::welcome_verdict::generation_closed)
      << "overtaken by its farewell";
  EXPECT_EQ(admit(hello("ben", 8)).verdict, messages::welcome_verdict::accepted);
  formed.reset();
  leave("ada", 1, 1);
  leave("cy", 1, 1);
  look();
  ASSERT_TRUE(formed);
  EXPECT_EQ(formed->members, (std::vector<std::uint32_t>{0, 1, 2}));
}

TEST_F(LeavingMember, IsNotWaitedForAsOneIsThatMayComeBack) {
  admit(hello("ada"));
  admit(hello("ben"));
  look();
  EXPECT_FALSE(formed) << "cy is still to come";
  admit(hello("cy"));
  say_left("cy");
  look();
  ASSERT_TRUE(formed) << "all that may come are here";
  EXPECT_EQ(formed->members, (std::vector<std::uint32_t>{0, 1}));

  formed.reset();
  members.disconnected(0, "test", now);
  members.disconnected(1, "test", now);
  look();
  EXPECT_EQ(members.over(now), "") << "ada and ben may be started again";
  admit(hello("ada", 8));
  look();
  EXPECT_FALSE(formed) << "ben is lost, not gone";
  admit(hello("ben", 8));
  const double here = now;
  keep_alive_until_formed();
  ASSERT_TRUE(formed);
  EXPECT_LT(now - here, timeouts.rejoin_timeout_ms / 1000.0);
}

TEST_F(LeavingMember, EndsTheRunOnlyWhereAllHaveLeft) {
  start();
  say_left("ada");
  say_left("ben");
  EXPECT_EQ(members.over(now), "");
  say_left("cy");
  EXPECT_EQ(members.over(now), "all workers have left or failed");
}

} // namespace
} // namespace dynamix::actors
