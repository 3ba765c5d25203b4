#include "cluster/cluster_file.hpp"

#include <gtest/gtest.h>

namespace dynamix::cluster {
namespace {

TEST(ClusterTimeouts, EqualTheirDefaultsAtTheDefaultDetectionTime) {
  const timeouts standard;
  const timeouts derived = derive_timeouts(1000);
  EXPECT_EQ(derived.heartbeat_interval_ms, standard.heartbeat_interval_ms);
  EXPECT_EQ(derived.connection_timeout_ms, standard.connection_timeout_ms);
  EXPECT_EQ(derived.probe_timeout_ms, standard.probe_timeout_ms);
  EXPECT_EQ(derived.request_timeout_ms, standard.request_timeout_ms);
  EXPECT_EQ(derived.gather_timeout_ms, standard.gather_timeout_ms);
  EXPECT_EQ(derived.beat_interval_ms, standard.beat_interval_ms);
  EXPECT_EQ(derived.silence_ms, standard.silence_ms);
  EXPECT_EQ(derived.rejoin_timeout_ms, standard.rejoin_timeout_ms);
  EXPECT_EQ(derived.stall_timeout_ms, standard.stall_timeout_ms);
  EXPECT_EQ(derived.collective_timeout_ms, standard.collective_timeout_ms);
  EXPECT_EQ(derived.join_timeout_ms, standard.join_timeout_ms);
  EXPECT_EQ(derived.shutdown_timeout_ms, standard.shutdown_timeout_ms);
}

TEST(ClusterTimeouts, KeepTheHeartbeatAtASecondOrMore) {
  for (const std::uint32_t detect_ms : {100U, 999U, 4000U, 60000U}) {
    const timeouts derived = derive_timeouts(detect_ms);
    EXPECT_GE(derived.heartbeat_interval_ms, 1000U) << detect_ms;
    EXPECT_GE(derived.silence_ms, 4 * derived.beat_interval_ms) << "three lost signs of life are not a failure";
    EXPECT_LT(derived.silence_ms + derived.beat_interval_ms, 2 * detect_ms) << "a hung worker is found within 2d";
    EXPECT_EQ(derived.connection_timeout_ms, 4 * derived.heartbeat_interval_ms) << detect_ms;
    EXPECT_LT(derived.gather_timeout_ms, derived.collective_timeout_ms) << detect_ms;
  }
  EXPECT_EQ(derive_timeouts(60000).heartbeat_interval_ms, 15000U);
}

} // namespace
} // namespace dynamix::cluster
