#include "node/launch/live_output.hpp"

#include <gtest/gtest.h>

#include <sstream>

namespace dynamix::node {
namespace {

constexpr std::chrono::milliseconds at_once{0};

TEST(LiveOutput, DrawsProgressOverItselfOnATerminal) {
  std::ostringstream out;
  {
    live_output live(out, {.redraw = true, .colour = false, .width = 8, .interval = at_once});
    live.progress("first line");
    live.progress("second");
    live.print("stays");
  }
  EXPECT_EQ(out.str(), "\rfirst l\x1b[K\rsecond\x1b[K\r\x1b[Kstays\n");
}

/// Each line beyond the width of a terminal made narrower left another behind: 64 in 6 s.
TEST(LiveOutput, FollowsTheWidthOfATerminal) {
  static std::size_t columns = 0;
  columns = 20;
  std::ostringstream out;
  live_output live(out, {.redraw = true, .width_now = [] { return columns; }, .interval = at_once});
  live.progress("first line");
  columns = 6;
  live.progress("second line");
  columns = 0; // nobody knows any more
  live.progress("third line");
  EXPECT_EQ(out.str(), "\rfirst line\x1b[K\rsecon\x1b[K\rthird\x1b[K");
}

TEST(LiveOutput, PrintsPlainLinesElsewhere) {
  std::ostringstream out;
  live_output live(out, {.redraw = false, .colour = false, .width = 8, .interval = at_once});
  live.progress("first line");
  live.progress("first line");
  live.progress("second");
  live.problem("trouble");
  EXPECT_EQ(out.str(), "first line\nsecond\ntrouble\n") << "whole lines, none twice";
}

/// The clock counts from boot, so what was never shown must not count as shown at 0.
TEST(LiveOutput, ShowsTheFirstProgressLineHoweverRecentlyTheMachineBooted) {
  std::ostringstream out;
  live_output live(out, {.redraw = false, .interval = std::chrono::years(100)});
  live.progress("first");
  EXPECT_EQ(out.str(), "first\n");
}

TEST(LiveOutput, WaitsBetweenProgressLines) {
  std::ostringstream out;
  live_output live(out, {.redraw = false, .interval = std::chrono::hours(1)});
  live.progress("first");
  live.progress("second");
  EXPECT_EQ(out.str(), "first\n");
}

TEST(LiveOutput, UsesColourOnlyWhereItIsWanted) {
  std::ostringstream coloured;
  live_output(coloured, {.colour = true}).problem("trouble");
  EXPECT_EQ(coloured.str(), "\x1b[1;31mtrouble\x1b[0m\n");
  setenv("NO_COLOR", "1", 1);
  EXPECT_FALSE(output_style::detect().colour);
  unsetenv("NO_COLOR");
}

TEST(LiveOutput, LeavesOutWholeWordsWhereATerminalIsTooNarrow) {
  const std::string line = "epoch 2/5  34 %  5,123 samples/s  batch ada 164 ben 139";
  EXPECT_EQ(shorten(line, 55), line);
  EXPECT_EQ(shorten(line, 54), "epoch 2/5  34 %  5,123 samples/s  batch ada 164 ...") << "no room for ben and the dots";
  EXPECT_EQ(shorten(line, 24), "epoch 2/5  34 % ...") << "no 5,1";
  EXPECT_EQ(shorten(line, 3), "epo");
  for (std::size_t width = 0; width < 60; ++width)
    EXPECT_LE(shorten(line, width).size(), width);
  std::ostringstream out;
  live_output live(out, {.redraw = false, .width_now = [] { return std::size_t{24}; }, .interval = at_once});
  live.progress(line);
  EXPECT_EQ(out.str(), "epoch 2/5  34 % ...\n") << "nor does it wrap";
}

TEST(LiveOutput, CutsLinesBetweenCharacters) {
  EXPECT_EQ(cut("a▁b", 2), "a▁");
  EXPECT_EQ(cut("a▁b", 3), "a▁b");
  EXPECT_EQ(cut("a▁b", 9), "a▁b");
}

} // namespace
} // namespace dynamix::node
