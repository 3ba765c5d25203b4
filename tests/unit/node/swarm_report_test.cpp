#include "node/experiments/swarm_report.hpp"

#include <gmock/gmock.h>

namespace dynamix::node {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

swarm_result sized(std::uint32_t workers, std::uint64_t hellos, std::uint32_t detect_ms) {
  swarm_result result{.workers = workers, .interval_ms = 1000, .detect_ms = detect_ms};
  result.outcome.whole.hellos = hellos;
  return result;
}

TEST(SwarmText, SaysWhenSignsOfLifeCameTooLate) {
  EXPECT_THAT(swarm_text(sized(64, 64, 1000)), Not(HasSubstr("signs of life")));
  EXPECT_THAT(swarm_text(sized(64, 128, 1000)), Not(HasSubstr("signs of life"))) << "a few may say hello twice";
  EXPECT_THAT(swarm_text(sized(64, 129, 1000)), HasSubstr("--set cluster.detect_ms=4000.\n"));
  EXPECT_THAT(swarm_text(sized(64, 129, 50'000)), HasSubstr("detect_ms=60000.")) << "its highest value";
}

} // namespace
} // namespace dynamix::node
