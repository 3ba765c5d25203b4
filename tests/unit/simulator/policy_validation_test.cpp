#include "simulator/parallel.hpp"
#include "simulator/policy_validation.hpp"
#include "tests/unit/simulator/small_cluster.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

namespace dynamix::simulator {
namespace {

using testing::small_cluster;

TEST(PolicyValidation, FindsARivalAsFastAsItself) {
  std::vector<scenario> scenarios = {small_cluster(4), small_cluster(3)};
  for (auto& each : scenarios)
    each.file.arbitrator.policy = cluster::policy_kind::goodput;
  const auto scores = policy_validation(scenarios, 1).score({});
  ASSERT_EQ(scores.rows.size(), 2U);
  for (const auto& row : scores.rows) {
    EXPECT_EQ(row.scenario, "small");
    EXPECT_DOUBLE_EQ(row.against_goodput, 1);
    EXPECT_GT(row.against_static, 1.2) << "every other host is slow";
  }
  EXPECT_DOUBLE_EQ(scores.against_goodput, 1);
  EXPECT_NEAR(scores.against_static, std::sqrt(scores.rows[0].against_static * scores.rows[1].against_static), 1e-12);
}

TEST(PolicyValidation, ScoresTheSameOnAnyNumberOfThreads) {
  const std::vector<scenario> scenarios = {small_cluster(4), small_cluster(3)};
  const auto alone = policy_validation(scenarios, 1).score({});
  const auto together = policy_validation(scenarios, 3).score({});
  EXPECT_EQ(together.against_goodput, alone.against_goodput);
  EXPECT_EQ(together.against_static, alone.against_static);
}

TEST(PolicyValidation, SaysWhichScenarioCannotBeCompared) {
  auto tight = small_cluster();
  tight.profiles[1].batch_highest = 8; // the initial batch size is 32
  try {
    policy_validation({tight}, 1);
    FAIL() << "a rival ran out of memory unnoticed";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), ::testing::AllOf(::testing::HasSubstr("small"), ::testing::HasSubstr("goodput")));
  }
}

TEST(ForEachIndex, DoesEverythingOnce) {
  std::vector<int> done(100);
  for_each_index(done.size(), 4, [&](std::size_t i) { ++done[i]; });
  EXPECT_EQ(done, std::vector<int>(100, 1));
  for_each_index(0, 4, [](std::size_t) { FAIL(); });
}

TEST(ForEachIndex, ThrowsOnWhatAThreadHasThrown) {
  EXPECT_THROW(for_each_index(50, 3,
                              [](std::size_t i) {
                                if (i == 20)
                                  throw std::runtime_error("twenty");
                              }),
               std::runtime_error);
}

} // namespace
} // namespace dynamix::simulator
