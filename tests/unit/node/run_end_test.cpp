#include "node/launch/run_end.hpp"

#include <gtest/gtest.h>

namespace dynamix::node {
namespace {

TEST(RunEnd, OfAWholeRunIsGoodOnlyAtTrainingsEnd) {
  EXPECT_EQ(exit_of_run(true, true), exit_done);
  EXPECT_EQ(exit_of_run(true, false), exit_failed);
  EXPECT_EQ(exit_of_run(false, true), exit_failed);
}

TEST(RunEnd, OfAHostIsGoodWhereWhatWasAskedForWasDone) {
  EXPECT_EQ(exit_of_host({.succeeded = true, .completed = true}), exit_done);
  EXPECT_EQ(exit_of_host({.succeeded = true, .completed = true, .asked = true}), exit_done) << "too late to matter";
  EXPECT_EQ(exit_of_host({.succeeded = true, .left = true, .asked = true}), exit_done);
}

TEST(RunEnd, OfAHostTellsWhetherARestartWouldHelp) {
  EXPECT_EQ(exit_of_host({}), exit_failed);
  EXPECT_EQ(exit_of_host({.asked = true}), exit_failed) << "it did not stop in order";
  EXPECT_EQ(exit_of_host({.succeeded = true, .stopped = true}), exit_unfinished);
  EXPECT_EQ(exit_of_host({.succeeded = true, .stopped = true, .asked = true}), exit_stopped);
  EXPECT_EQ(exit_of_host({.stopped = true}), exit_stopped) << "nothing had begun";
  EXPECT_EQ(exit_of_host({.stopped = true, .asked = true}), exit_stopped);
}

} // namespace
} // namespace dynamix::node
