#include "session/progress_watch.hpp"

#include <gtest/gtest.h>

namespace dynamix::session {
namespace {

class ProgressWatch : public ::testing::Test {
protected:
  ProgressWatch() { watch.entered(now); }

  /// So much time passes without a completed step; the first finding, if there is one.
  watch_finding wait(double seconds, bool orphaned) {
    for (const double until = now + seconds; now < until;) {
      now += timeouts.beat_interval_ms / 1000.0;
      if (auto found = watch.look(now, steps, orphaned); found.verdict != watch_verdict::fine)
        return found;
    }
    return {};
  }

  cluster::timeouts timeouts = cluster::derive_timeouts(1000);
  progress_watch watch{timeouts};
  double now = 1000;
  std::uint64_t steps = 0;
};

TEST_F(ProgressWatch, WaitsForTheArbitratorsWordWhileItIsThere) {
  EXPECT_EQ(wait(50, false).verdict, watch_verdict::fine);
}

TEST_F(ProgressWatch, WithoutAnArbitratorAWorkerThatStandsStillIsCutOff) {
  const auto found = wait(60, true);
  EXPECT_EQ(found.verdict, watch_verdict::cut_off);
  EXPECT_LE(now - 1000, 7);
  EXPECT_NE(found.reason.find("cut off"), std::string::npos);
}

TEST_F(ProgressWatch, SlowStepsAreNoStandstill) {
  for (steps = 1; steps < 5; ++steps)
    EXPECT_EQ(wait(5, false).verdict, watch_verdict::fine);
  EXPECT_EQ(wait(40, true).verdict, watch_verdict::fine) << "ten times the longest step";
  EXPECT_EQ(wait(20, true).verdict, watch_verdict::cut_off);
}

TEST_F(ProgressWatch, AThreadThatDoesNotReturnIsStuck) {
  watch.interrupted(now);
  EXPECT_EQ(wait(timeouts.stall_timeout_ms / 1000.0 - 1, true).verdict, watch_verdict::fine);
  EXPECT_EQ(wait(2, true).verdict, watch_verdict::stuck);
}

TEST_F(ProgressWatch, TimeThatItSleptItselfDoesNotCount) {
  watch.interrupted(now);
  now += 10 * timeouts.stall_timeout_ms / 1000.0;
  EXPECT_EQ(watch.look(now, steps, true).verdict, watch_verdict::fine);
}

TEST_F(ProgressWatch, OutsideOfAGenerationThereIsNothingToWatch) {
  watch.left();
  EXPECT_EQ(wait(200, true).verdict, watch_verdict::fine);
}

} // namespace
} // namespace dynamix::session
