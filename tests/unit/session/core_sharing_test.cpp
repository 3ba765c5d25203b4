#include "session/core_sharing.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace dynamix::session {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::uint32_t> shared_cpus(const std::vector<core_use>& members) {
  std::vector<std::uint32_t> cpus;
  const auto judged = judge_cores(members).value();
  for (const auto& each : judged)
    cpus.push_back(each.cpus);
  return cpus;
}

core_use use(std::uint32_t set, std::uint16_t cpus, double demand) {
  return {.set = set, .cpus = cpus, .demand_percent = static_cast<std::uint16_t>(100 * demand)};
}

TEST(CoreSharing, IsUnknownUntilAllHaveMeasured) {
  EXPECT_FALSE(judge_cores(std::vector{use(1, 2, 1), core_use{}}));
  EXPECT_TRUE(judge_cores(std::vector{use(1, 2, 1), use(1, 2, 1)}));
}

TEST(CoreSharing, IsOfThoseWhoKeepMoreCpusBusyThanTheyHave) {
  EXPECT_THAT(shared_cpus({use(1, 2, 0.9), use(1, 2, 0.9), use(1, 2, 0.9), use(1, 2, 0.9)}), ElementsAre(2, 2, 2, 2));
  EXPECT_THAT(shared_cpus({use(1, 4, 0.9), use(1, 4, 0.9), use(1, 4, 0.9), use(1, 4, 0.9)}), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(shared_cpus({use(1, 1, 1), use(2, 1, 1)}), ElementsAre(0, 0)) << "each has a core of its own";
  EXPECT_THAT(shared_cpus({use(1, 2, 1.1), use(1, 2, 1.1)}), ElementsAre(0, 0)) << "a thread now and then";
  EXPECT_THAT(shared_cpus({use(1, 1, 0.1), use(1, 1, 0.1)}), ElementsAre(0, 0)) << "GPUs compute";
}

TEST(CoreSharing, IsNoneOfOneMembersOwnThreads) {
  EXPECT_THAT(shared_cpus({use(1, 2, 16), use(2, 2, 16)}), ElementsAre(0, 0));
}

TEST(CoreSharing, LeavesOthersAlone) {
  EXPECT_THAT(shared_cpus({use(1, 1, 1), use(2, 8, 4), use(1, 1, 1), use(3, 8, 8)}), ElementsAre(1, 0, 1, 0));
}

TEST(CoreSharing, IsNoneWhereMachinesHaveNoName) {
  EXPECT_THAT(shared_cpus({use(0, 1, 1), use(0, 1, 1)}), ElementsAre(0, 0));
}

/// Whatever one of them says, two that use a tenth of the CPUs each do not come to share them for others.
TEST(CoreSharing, CountsNoMoreOfAMemberThanItsCpus) {
  EXPECT_THAT(shared_cpus({use(1, 8, 650), use(1, 8, 0.8), use(1, 8, 0.8)}), ElementsAre(0, 0, 0));
  EXPECT_DOUBLE_EQ(judge_cores(std::vector{use(1, 8, 650), use(1, 8, 4)}).value()[1].demand, 12);
}

TEST(CoreSharing, TakesAnyNumbersOfAPeer) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::vector<core_use> members;
    for (int i = 0; i < 4; ++i) {
      const auto number = random();
      EXPECT_EQ(encode_core_use(decode_core_use(number)), number);
      members.push_back(decode_core_use(number));
      members.back().set %= 3;
    }
    if (const auto judged = judge_cores(members))
      for (std::size_t i = 0; i < members.size(); ++i) {
        EXPECT_LE((*judged)[i].demand, 4 * 65'535.0);
        EXPECT_EQ((*judged)[i].cpus > 0, !describe_sharing(*judged, i).empty());
      }
  }
}

TEST(CoreSharing, SaysWhoSharesWhat) {
  const auto judged = judge_cores(std::vector{use(1, 2, 1), use(2, 2, 2), use(1, 2, 0.9), use(1, 2, 0.75)}).value();
  EXPECT_THAT(describe_sharing(judged, 2), HasSubstr("members 0, 2, 3 share 2 CPUs and would keep 2.7 busy: "));
  EXPECT_EQ(describe_sharing(judged, 1), "");
}

} // namespace
} // namespace dynamix::session
