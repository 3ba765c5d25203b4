#include "actors/host_events.hpp"

#include <gtest/gtest.h>

namespace dynamix::actors {
namespace {

worker_end end_of(const std::string& name, bool succeeded, const std::string& reason) {
  return {{succeeded, reason}, {.host = name, .succeeded = succeeded, .reason = reason, .decisions = {}}, {}};
}

constexpr std::chrono::milliseconds at_once{0};

TEST(HostEvents, AreOverForSeveralWorkersWhenAllHaveEnded) {
  host_events events(2);
  events.worker_ended(end_of("ada/1", true, "epochs completed"), "");
  EXPECT_FALSE(events.wait_ended(true, false, at_once)) << "ada/0 goes on";
  EXPECT_FALSE(events.take().worker.has_value());
  events.worker_ended(end_of("ada/0", true, "epochs completed"), "");
  EXPECT_TRUE(events.wait_ended(true, false, at_once));
  EXPECT_TRUE(events.take().worker->succeeded);
  EXPECT_EQ(events.take().workers.size(), 2U);
}

TEST(HostEvents, TellOfTheWorkerThatFailedAmongSeveral) {
  host_events events(2);
  events.worker_ended(end_of("ada/0", true, "epochs completed"), "");
  events.worker_ended(end_of("ada/1", false, "CUDA out of memory"), "");
  EXPECT_FALSE(events.take().worker->succeeded);
  EXPECT_EQ(events.take().worker->reason, "ada/1: CUDA out of memory");
}

TEST(HostEvents, TellTheOnlyWorkersOwnWord) {
  host_events events;
  events.worker_ended(end_of("ada", false, "lost"), "checkpoint");
  EXPECT_EQ(events.take().worker->reason, "lost");
  EXPECT_EQ(events.take().checkpoint, "checkpoint");
}

TEST(HostEvents, AreOverAtTheFirstFailureOfAPart) {
  host_events events(3);
  events.failed("its supervisor gave up");
  events.failed("and then this");
  EXPECT_TRUE(events.wait_ended(true, true, at_once));
  EXPECT_EQ(events.take().failure, "its supervisor gave up");
}

} // namespace
} // namespace dynamix::actors
