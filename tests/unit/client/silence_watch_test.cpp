#include "client/silence_watch.hpp"

#include <gtest/gtest.h>

namespace dynamix::client {
namespace {

constexpr double limit = silence_watch::patience_seconds;

TEST(SilenceWatch, FindsWhoHasTakenNothingForItsPatience) {
  silence_watch watch;
  EXPECT_FALSE(watch.look(100, 800)) << "sent just now";
  double now = 100;
  for (; now < 100 + limit - 0.1; now += 0.1)
    EXPECT_FALSE(watch.look(now, 900));
  EXPECT_TRUE(watch.look(now + 0.2, 1200));
}

TEST(SilenceWatch, WaitsForWhoTakesSomethingHoweverLittle) {
  silence_watch watch;
  double now = 100;
  for (int i = 0; i < 1000; ++i, now += 0.1) {
    EXPECT_FALSE(watch.look(now, i % 40 == 0 ? 0 : 800)) << i << ": took all";
    EXPECT_FALSE(watch.look(now, 800 + (i % 40 == 20 ? 0 : 100))) << i << ": took a part";
  }
}

/// Of who is looked at right behind each sending, and has taken less than that by then.
TEST(SilenceWatch, WaitsForWhoTakesSomethingBetweenTwoSendings) {
  silence_watch watch;
  double now = 100;
  for (int i = 0; i < 100; ++i, now += 1) {
    watch.sent(i == 0 ? 0 : 700, 800);
    EXPECT_FALSE(watch.look(now, 800)) << i;
  }
  for (std::size_t unread = 800; now < 205 + limit; now += 1, unread += 100) {
    watch.sent(unread, unread + 100);
    EXPECT_EQ(watch.look(now, unread + 100), now >= 199 + limit) << now << ": it has taken something by 199 s";
  }
}

TEST(SilenceWatch, CountsNoneOfTheTimeInWhichItWasNotAskedButALittle) {
  silence_watch watch;
  watch.look(100, 800);
  EXPECT_FALSE(watch.look(700, 800)) << "both may have been stopped, and the other wakes a moment later";
  EXPECT_FALSE(watch.look(700.01, 0));
  EXPECT_FALSE(watch.look(1300, 800));
  EXPECT_FALSE(watch.look(1330, 800));
  EXPECT_TRUE(watch.look(1360, 800)) << "steps of half a minute";
}

} // namespace
} // namespace dynamix::client
