#include "actors/aggregator/credit.hpp"
#include "actors/aggregator/roster.hpp"

#include <gtest/gtest.h>

namespace dynamix::actors {
namespace {

TEST(Credit, LetsSoManyGoAndKeepsTheNewestOfTheRest) {
  credit<int> tested(2);
  EXPECT_EQ(tested.offer(1), 1);
  EXPECT_EQ(tested.offer(2), 2);
  EXPECT_FALSE(tested.offer(3));
  EXPECT_FALSE(tested.offer(4));
  EXPECT_EQ(tested.dropped(), 1U);
  EXPECT_EQ(tested.answered(1), 4) << "3 was the older";
  EXPECT_FALSE(tested.answered(1));
  EXPECT_EQ(tested.under_way(), 1U);
  EXPECT_FALSE(tested.answered(7)) << "more answers than there were messages";
  EXPECT_EQ(tested.under_way(), 0U);
}

TEST(Roster, FindsWhoIsSilentOnceAndWhoIsToLeave) {
  roster tested(1.5, 0.25);
  tested.joined(3, 7, 0);
  tested.joined(4, 8, 0);
  for (double now = 0.25; now < 1.4; now += 0.25) {
    EXPECT_TRUE(tested.find_silent(now).empty());
    EXPECT_TRUE(tested.beat({.rank = 4, .incarnation = 8}, now));
  }
  EXPECT_TRUE(tested.find_silent(1.5).empty());
  const auto silent = tested.find_silent(1.75);
  ASSERT_EQ(silent.size(), 1U);
  EXPECT_EQ(silent[0].rank, 3U);
  EXPECT_EQ(silent[0].incarnation, 7U);
  EXPECT_TRUE(tested.find_silent(2.0).empty()) << "told once";
  EXPECT_EQ(tested.take_beats().size(), 1U);
  EXPECT_TRUE(tested.take_beats().empty());
  EXPECT_FALSE(tested.beat({.rank = 9, .incarnation = 1}, 2.0)) << "not of this shard";
  tested.send_away(4);
  EXPECT_FALSE(tested.beat({.rank = 4, .incarnation = 8}, 2.0)) << "it is to find out";
}

TEST(Roster, HoldsItsOwnSleepAgainstNobody) {
  roster tested(1.5, 0.25);
  tested.joined(3, 7, 0);
  EXPECT_TRUE(tested.find_silent(0.25).empty());
  EXPECT_TRUE(tested.find_silent(60).empty());
  double found = 0;
  for (double now = 60.25; now < 63 && found == 0; now += 0.25)
    found = tested.find_silent(now).empty() ? 0 : now;
  EXPECT_NEAR(found, 61.25, 0.3) << "silent since it was seen, its own sleep left out";
}

} // namespace
} // namespace dynamix::actors
