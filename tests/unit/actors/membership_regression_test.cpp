/// What tests/simulation found, as small as it can be told.

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

/// the notice named generation 0, which is no message.
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

} // namespace
} // namespace dynamix::actors
