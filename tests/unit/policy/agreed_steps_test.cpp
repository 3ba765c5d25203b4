#include "cluster/decision_steps.hpp"
#include "policy/agreed_steps.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace dynamix::policy {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint32_t window_steps = 20;

/// Window 5, in which workers by rank say that it began with these steps.
messages::shard_report window_of(const std::vector<std::uint64_t>& first_steps) {
  messages::shard_report shard{.window = 5, .generation = 1, .reports = {}};
  for (const auto first_step : first_steps) {
    const auto rank = static_cast<std::uint32_t>(shard.reports.size());
    shard.reports.push_back(
        {.host = "w" + std::to_string(rank), .rank = rank, .generation = 1, .window = 5, .first_step = first_step});
    shard.reports.back().training.steps = window_steps;
  }
  return shard;
}

agreed_steps agree(const messages::shard_report& shard) {
  return agree_on_steps(shard, window_steps);
}

TEST(AgreedSteps, AreThoseThatAllSay) {
  const auto agreed = agree(window_of({80, 80, 80}));
  EXPECT_EQ(agreed.due_step, cluster::decision_step(80, window_steps));
  EXPECT_EQ(agreed.end_step, 100U);
  EXPECT_THAT(agreed.doubted, IsEmpty());
}

TEST(AgreedSteps, AreThoseOfTheOthersWhereOneIsFarAhead) {
  const std::uint64_t far = 1ULL << 40;
  const auto agreed = agree(window_of({80, far, 80}));
  EXPECT_EQ(agreed.due_step, 102U);
  EXPECT_EQ(agreed.end_step, 100U);
  EXPECT_THAT(agreed.doubted, ElementsAre(Field(&doubted_steps::rank, 1U)));
  EXPECT_EQ(agreed.doubted[0].host, "w1");
  EXPECT_THAT(agreed.doubted[0].reason, HasSubstr("went from step 1099511627776"));
}

TEST(AgreedSteps, GoByTheWindowsNumberWhereTwoDiffer) {
  for (const auto& first_steps : {std::vector<std::uint64_t>{80, 1ULL << 40}, {1ULL << 40, 80}, {0, 80}}) {
    const auto agreed = agree(window_of(first_steps));
    EXPECT_EQ(agreed.due_step, 102U);
    EXPECT_EQ(agreed.doubted.size(), 1U);
  }
}

TEST(AgreedSteps, AreNotThoseOfReportsThatStoodIn) {
  auto shard = window_of({80, 20, 20});
  shard.reports[1].window = shard.reports[2].window = 2;
  EXPECT_EQ(agree(shard).due_step, 102U);
  EXPECT_THAT(agree(shard).doubted, IsEmpty());
  for (auto& report : shard.reports)
    report.window = 2;
  EXPECT_EQ(agree(shard).due_step, cluster::decision_step(20, window_steps)) << "they are all that there is";
}

TEST(AgreedSteps, DoubtNobodyWhoseWindowBeganAWhileLater) {
  EXPECT_THAT(agree(window_of({80, 80, 93})).doubted, IsEmpty());
}

TEST(AgreedSteps, AreTheLastOnesWhereMostSaySo) {
  auto shard = window_of({80, 80, 80});
  shard.reports[1].final = true;
  EXPECT_FALSE(agree(shard).last);
  shard.reports[0].final = true;
  EXPECT_TRUE(agree(shard).last);
  shard.reports[2].final = shard.reports[1].final = false;
  shard.reports[1].window = shard.reports[2].window = 4;
  EXPECT_TRUE(agree(shard).last) << "of those in time";
}

TEST(AgreedSteps, AreAStepForAnyNumbers) {
  std::mt19937_64 generator(3);
  for (int trial = 0; trial < 1000; ++trial) {
    auto shard = window_of({generator(), generator() >> (generator() % 64), generator() % 200});
    shard.window = generator() >> (generator() % 64);
    for (auto& report : shard.reports)
      report.window = generator() % 2 == 0 ? shard.window : generator();
    ASSERT_LE(agree(shard).due_step, messages::max_counter);
  }
  EXPECT_EQ(agree({}).due_step, 0U);
}

} // namespace
} // namespace dynamix::policy
