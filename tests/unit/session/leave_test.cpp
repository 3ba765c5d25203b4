#include "session/leave.hpp"

#include <gtest/gtest.h>

namespace dynamix::session {
namespace {

TEST(Leave, IsMeantByARequestToOneHostUnlessItAloneArbitrates) {
  EXPECT_TRUE(decide_host_stop(true, {}).leaves) << "a worker's host, or a shard's";
  EXPECT_TRUE(decide_host_stop(true, {.arbitrates = true, .replicated = true}).leaves) << "the others elect a leader";
  const auto only = decide_host_stop(true, {.arbitrates = true});
  EXPECT_FALSE(only.leaves);
  EXPECT_NE(only.reason.find("this host alone arbitrates"), std::string::npos);
  EXPECT_FALSE(decide_host_stop(false, {}).leaves) << "SIGINT is meant for the training";
}

TEST(Leave, AsksThePeersFirstAndDropsTheStepInFlightWhenThatTakesTooLong) {
  const auto timeouts = cluster::derive_timeouts(1000);
  EXPECT_EQ(decide_leave(10, 10, 0, timeouts).step, leave_step::go);
  EXPECT_EQ(decide_leave(10, 10, 3, timeouts).step, leave_step::ask);
  EXPECT_EQ(decide_leave(11.4, 10, 3, timeouts).step, leave_step::ask);
  const auto late = decide_leave(11.6, 10, 3, timeouts);
  EXPECT_EQ(late.step, leave_step::drop) << "no later than its death would have been noticed";
  EXPECT_NE(late.reason.find("within 1500 ms"), std::string::npos) << late.reason;
  EXPECT_EQ(decide_leave(11.6, 10, 1, timeouts).step, leave_step::stop) << "nobody would be left";
}

} // namespace
} // namespace dynamix::session
