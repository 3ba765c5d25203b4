/// Whom the others hear of as the cause of their generation's end.

#include "tests/unit/actors/small_membership.hpp"

namespace dynamix::actors {
namespace {

class MembershipCause : public ::testing::Test, protected testing::small_membership {};

TEST_F(MembershipCause, WhoDiedIsNamedAsTheCauseThoughItsPeersCameOutFirst) {
  start();
  complete_steps(10);
  leave("ada", 10, 11);
  look();
  EXPECT_EQ(members.state().reason, "ada could not continue in it");
  members.disconnected(2, "the connection to it broke", now);
  EXPECT_EQ(members.state().reason, "cy is lost: the connection to it broke");
  members.disconnected(1, "the connection to it broke", now);
  EXPECT_EQ(members.state().reason, "cy is lost: the connection to it broke") << "the first";
}

TEST_F(MembershipCause, WhoCameOutSaysWhy) {
  start();
  complete_steps(10);
  auto said = hello("ada");
  said.generation = members.state().generation;
  said.steps = 10;
  said.attempted_steps = 11;
  said.left_because = "rank 1 at 10.0.0.2:40000 is not reached: Connection timed out";
  ASSERT_EQ(admit(said).verdict, messages::welcome_verdict::accepted);
  look();
  EXPECT_EQ(members.state().reason,
            "ada could not continue in it: rank 1 at 10.0.0.2:40000 is not reached: Connection timed out");
}

TEST_F(MembershipCause, WhoCameOutOfAnOlderGenerationSaysNothingOfThisOne) {
  start();
  keep_alive_for(0.1);
  auto said = hello("ada");
  said.generation = members.state().generation;
  members.disconnected(2, "test", now);
  look();
  leave("ada", 10, 10);
  leave("ben", 10, 10);
  formed.reset();
  keep_alive_until_formed();
  ASSERT_EQ(members.state().generation, 2U);
  said.steps = said.attempted_steps = 9; // as it was before
  said.left_because = "rank 1 has closed its connection";
  ASSERT_EQ(admit(said).verdict, messages::welcome_verdict::accepted);
  look();
  EXPECT_EQ(members.state().reason, "ada could not continue in it");
}

TEST_F(MembershipCause, AWorkersOwnWordsAreShortAndEndNoField) {
  start();
  complete_steps(10);
  auto said = hello("ada");
  said.generation = members.state().generation;
  said.steps = said.attempted_steps = 10;
  said.left_because = "x\" rank=0\nhost=hub " + std::string(1000, 'x');
  ASSERT_EQ(admit(said).verdict, messages::welcome_verdict::accepted);
  look();
  const auto why = members.state().reason;
  EXPECT_TRUE(why.starts_with("ada could not continue in it: x' rank=0 host=hub xxx")) << why;
  EXPECT_LT(why.size(), 300U);
  said.left_because = why; // which it is told in the notice
  admit(said);
  EXPECT_EQ(members.state().members[0].detail, "");
}

TEST_F(MembershipCause, AStallThatNobodyLetsGoOfStaysTheCause) {
  start();
  keep_alive_for(timeouts.stall_timeout_ms / 1000.0 + 1);
  const auto why = members.state().reason;
  EXPECT_NE(why.find("no step has been completed for"), std::string::npos) << why;
  members.disconnected(2, "test", now);
  EXPECT_EQ(members.state().reason, why);
}

} // namespace
} // namespace dynamix::actors
