#include "trainer/clock.hpp"
#include "trainer/emulation.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace dynamix::trainer {
namespace {

const std::vector<cluster::emulation> entries{{10, 2}, {20, 4}, {30, 1}};

TEST(Emulation, TakesTheLatestEntryThatHasBegun) {
  EXPECT_EQ(slowdown_at(entries, 0), 1);
  EXPECT_EQ(slowdown_at(entries, 9.999), 1);
  EXPECT_EQ(slowdown_at(entries, 10), 2);
  EXPECT_EQ(slowdown_at(entries, 25), 4);
  EXPECT_EQ(slowdown_at(entries, 1e9), 1);
  EXPECT_EQ(slowdown_at({}, 5), 1);
}

TEST(Emulation, StretchesComputingByTheFactor) {
  EXPECT_DOUBLE_EQ(0.5 + emulation_delay_seconds(4, 0.5), 2.0);
  EXPECT_EQ(emulation_delay_seconds(1, 0.5), 0);
  EXPECT_EQ(emulation_delay_seconds(2, -1), 0);
}

TEST(SteadyClock, SleepsAtLeastAsLongAsAsked) {
  steady_clock clock;
  const double before = clock.now_seconds();
  clock.sleep_seconds(0.002);
  clock.sleep_seconds(-1);
  EXPECT_GE(clock.now_seconds() - before, 0.002);
}

} // namespace
} // namespace dynamix::trainer
