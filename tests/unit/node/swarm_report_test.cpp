#include "node/experiments/swarm_report.hpp"

#include <gmock/gmock.h>

namespace dynamix::node {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

swarm_result sized(std::uint32_t workers, std::uint64_t hellos, std::uint32_t detect_ms) {
  swarm_result result{.workers = workers, .interval_ms = 1000, .detect_ms = detect_ms};
  result.outcome.whole.hellos = hellos;
  return result;
}

TEST(SwarmText, SaysWhenSignsOfLifeCameTooLate) {
  EXPECT_THAT(swarm_text(sized(64, 64, 1000)), Not(HasSubstr("said hello repeatedly")));
  EXPECT_THAT(swarm_text(sized(64, 128, 1000)), Not(HasSubstr("said hello repeatedly"))) << "a few may say hello twice";
  EXPECT_THAT(swarm_text(sized(64, 129, 1000)), HasSubstr("--set cluster.detect_ms=4000.\n"));
  EXPECT_THAT(swarm_text(sized(64, 129, 50'000)), HasSubstr("detect_ms=60000.")) << "its highest value";
}

TEST(SwarmText, ShowsNoLatencyWhereNoDecisionWasApplied) {
  auto result = sized(64, 64, 1000);
  result.killed = "arbitrator-1";
  result.killed_before = 3;
  result.outcome.end_to_applied = {0.0125F};
  const auto text = swarm_text(result);
  EXPECT_THAT(text, ContainsRegex("window's end to decision applied +12\\.5 +12\\.5 +12\\.5 +12\\.5\n"));
  EXPECT_THAT(text, ContainsRegex("window's end to its last decision applied +- +- +- +-\n"));
  EXPECT_THAT(text, HasSubstr("was killed before window 3: none of its decisions was applied\n"));
  result.after_kill = {0.5F};
  EXPECT_THAT(swarm_text(result), HasSubstr("its decisions were applied 500.0 ms (p50), 500.0 ms (p99)"));
}

} // namespace
} // namespace dynamix::node
