#include "replication/probation.hpp"

#include <gtest/gtest.h>

namespace dynamix::replication {
namespace {

using phase = probation::phase;

TEST(Probation, AsksUntilBothOthersOfThreeHaveToldTheirTerms) {
  probation trial(3);
  EXPECT_FALSE(trial.follows(100));
  trial.heard(2, 7, false);
  trial.heard(2, 9, false);
  EXPECT_EQ(trial.now(), phase::asking);
  trial.heard(3, 4, false);
  EXPECT_EQ(trial.now(), phase::catching_up);
  EXPECT_EQ(trial.promised_term(), 10U);
}

TEST(Probation, AsksThreeOfTheFourOthersOfFive) {
  probation trial(5);
  trial.heard(2, 3, false);
  trial.heard(3, 3, false);
  EXPECT_EQ(trial.now(), phase::asking);
  trial.heard(5, 3, false);
  EXPECT_EQ(trial.now(), phase::catching_up);
}

TEST(Probation, FollowsNewerLeadersOnlyAndIsOverWhenAnEntryOfTheirsIsApplied) {
  probation trial(3);
  trial.heard(2, 4, false);
  trial.heard(3, 4, false);
  EXPECT_FALSE(trial.follows(4)); // it may count on what this voter acknowledged in its life before
  EXPECT_TRUE(trial.follows(5));
  trial.sent(10, 3);
  trial.sent(11, 4);
  trial.applied(11);
  EXPECT_EQ(trial.now(), phase::catching_up);
  trial.sent(12, 6);
  trial.sent(13, 6);
  trial.applied(11);
  EXPECT_EQ(trial.now(), phase::catching_up);
  trial.applied(12);
  EXPECT_EQ(trial.now(), phase::over);
  EXPECT_TRUE(trial.follows(1));
}

TEST(Probation, ForgetsAnEntryThatAnOlderOneReplaced) {
  probation trial(3);
  trial.heard(2, 4, false);
  trial.heard(3, 4, false);
  trial.sent(10, 5);
  trial.sent(10, 3); // by a leader that has never seen the other
  trial.applied(10);
  EXPECT_EQ(trial.now(), phase::catching_up);
  trial.sent(11, 6);
  trial.applied(11);
  EXPECT_EQ(trial.now(), phase::over);
}

TEST(Probation, IsOverAtOnceInANewCluster) {
  probation trial(3);
  trial.heard(2, 1, true);
  trial.heard(3, 1, true);
  EXPECT_EQ(trial.now(), phase::over);
}

TEST(Probation, LearnsLateThatTheClusterIsNew) {
  probation trial(3);
  trial.heard(2, 1, false); // an answer tells no more than the term
  trial.heard(3, 1, false);
  EXPECT_EQ(trial.now(), phase::catching_up);
  trial.heard(2, 1, true);
  EXPECT_EQ(trial.now(), phase::catching_up);
  trial.heard(3, 2, true);
  EXPECT_EQ(trial.now(), phase::over);
}

TEST(Probation, DoesNotTakeAClusterForNewBecauseOneOtherIs) {
  probation trial(3);
  trial.heard(2, 1, true);
  trial.heard(3, 8, false);
  EXPECT_EQ(trial.now(), phase::catching_up);
  EXPECT_EQ(trial.promised_term(), 9U);
}

} // namespace
} // namespace dynamix::replication
