// A training that begins with less than its initial global batch, and what becomes of that where nobody decides.

#include "client/lockstep.hpp"
#include "messages/early_steps.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace dynamix::client {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::Le;

class SmallStart : public testing::Test {
protected:
  static constexpr std::uint32_t window_steps = 10;

  lockstep begin(std::vector<member_batch> members, lockstep_options options = {}) {
    options.members = std::move(members);
    options.samples = 1 << 20;
    options.window_steps = window_steps;
    if (options.rule == messages::rate_rule::constant)
      options.rule = messages::rate_rule::adascale;
    lockstep steps(std::move(options));
    steps.start_epoch();
    return steps;
  }

  /// One step in which all hold a decision of so many samples per member, or none (0). Returns its global batch.
  std::uint64_t step(lockstep& steps, std::uint32_t decided = 0) {
    dealt_step dealt;
    steps.deal(dealt);
    steps.deliver();
    std::array<messages::decision, 2> held{};
    if (decided > 0)
      held[0] = {.key = {1, ++window_}, .batch = decided};
    const std::vector<step_row> rows(steps.options().members.size(),
                                     steps.write_row(held, session::step_request::none, 1, 0));
    session::agreement agreed;
    EXPECT_EQ(steps.read_rows(rows, agreed), "");
    steps.rate(0);
    steps.complete(false);
    return dealt.total;
  }

  std::vector<std::uint64_t> windows(lockstep& steps, int count, std::uint32_t decided = 0) {
    std::vector<std::uint64_t> totals;
    for (int window = 0; window < count; ++window) {
      totals.push_back(step(steps, decided));
      for (std::uint32_t i = 1; i < window_steps; ++i)
        step(steps);
    }
    return totals;
  }

private:
  std::uint64_t window_ = 0;
};

TEST_F(SmallStart, GrowsToTheInitialBatchWhereNoDecisionComes) {
  for (const auto balances : {messages::balancing::off, messages::balancing::shares}) {
    auto steps = begin({{.initial = 64, .first = 16}, {.initial = 64, .first = 16}}, {.balances = balances});
    EXPECT_EQ(steps.base_batch(), 128U) << "the learning rate is meant for that";
    EXPECT_THAT(windows(steps, 5), Each(32));
    EXPECT_EQ(step(steps), 32U) << "the step in which they come to it";
    EXPECT_EQ(step(steps), 64U);
    windows(steps, 2);
    EXPECT_THAT(steps.newest_batches().batches, ElementsAre(64, 64));
    EXPECT_THAT(windows(steps, 5), Each(128));
  }
}

TEST_F(SmallStart, TellsSchedulesOfTheStepsThatTheInitialBatchHas) {
  auto steps = begin({{.initial = 64, .first = 16}, {.initial = 64, .first = 16}});
  EXPECT_EQ(steps.epoch_steps(), (1U << 20) / 128);
  windows(steps, 2, 8);
  EXPECT_GT(steps.epoch_steps(), (1U << 20) / 20) << "as decided";
}

TEST_F(SmallStart, StaysAsSmallAsIsDecidedAndGrowsOnceDecisionsCease) {
  auto steps = begin({{.initial = 64, .first = 16}, {.initial = 64, .first = 16}});
  windows(steps, 1);
  windows(steps, 1, 8);
  EXPECT_THAT(windows(steps, 20, 8), Each(16));
  EXPECT_THAT(windows(steps, 3), Each(16));
  windows(steps, 5);
  EXPECT_EQ(step(steps), 128U);
}

TEST_F(SmallStart, GrowsWithinWhatMembersHold) {
  auto steps = begin({{.initial = 64, .first = 16}, {.initial = 64, .first = 16}});
  steps.limit_batch(20);
  windows(steps, 12);
  EXPECT_THAT(steps.newest_batches().batches, ElementsAre(20, Le(20))) << "all rows here are the first member's";
}

TEST_F(SmallStart, LeavesAloneWhatNobodyWasToDecide) {
  lockstep_options alone;
  alone.decides = false;
  alone.balances = messages::balancing::shares;
  lockstep_options together;
  together.balances = messages::balancing::all;
  lockstep_options linear;
  linear.rule = messages::rate_rule::linear;
  for (const auto& options : {alone, together, linear}) {
    auto steps = begin({{.initial = 64, .first = 16}, {.initial = 64, .first = 16}}, options);
    EXPECT_THAT(windows(steps, 9), Each(32));
  }
}

/// Where the workers choose the global batch by its noise scale.
TEST_F(SmallStart, LeavesTheGlobalBatchInTheFirstSteps) {
  auto steps = begin({{.initial = 64}, {.initial = 64}}, {.balances = messages::balancing::all});
  std::vector<std::uint64_t> proposed;
  for (std::uint64_t number = 0; number < 2 * messages::early_steps; ++number) {
    dealt_step dealt;
    steps.deal(dealt);
    steps.deliver();
    steps.computed(64 * 1e-4 * (1 + number % 2 * 0.01));
    const std::vector<step_row> rows(2, steps.write_row({}, session::step_request::none, 1, 1000));
    proposed.push_back(rows[0].total_batch);
    session::agreement agreed;
    ASSERT_EQ(steps.read_rows(rows, agreed), "");
    steps.rate(1);
    steps.complete(false, 0.1);
  }
  const auto later = proposed.begin() + messages::early_steps;
  EXPECT_TRUE(std::all_of(proposed.begin(), later, [](std::uint64_t total) { return total == 0; }));
  EXPECT_TRUE(std::any_of(later, proposed.end(), [](std::uint64_t total) { return total > 128; }));
}

TEST_F(SmallStart, WaitsAnewForDecisionsInEachGroup) {
  auto steps = begin({{.initial = 64, .first = 16}, {.initial = 64, .first = 16}, {.initial = 64, .first = 16}});
  windows(steps, 3);
  steps.regroup({true, true, false});
  EXPECT_THAT(windows(steps, 4), Each(48)) << "two share what three had";
  windows(steps, 3);
  EXPECT_THAT(steps.newest_batches().batches, ElementsAre(96, 96, 0));
}

/// Whoever resumes begins neither with the first steps' quarter nor at the initial batch, but with what ran, which is
/// what a fresh arbitrator sees run first and bounds growth by.
TEST_F(SmallStart, IsOverInARunThatResumesAndRunsOnAtItsBatchSizes) {
  const std::vector<member_batch> members(2, {.initial = 64, .first = 16});
  for (const std::uint32_t ran : {8U, 24U, 160U}) {
    auto before = begin(members);
    windows(before, 3, ran);
    auto resumed = begin(members);
    ASSERT_EQ(resumed.restore(before.save()), "");
    resumed.start_epoch();
    EXPECT_EQ(resumed.base_batch(), 128U);
    EXPECT_EQ(step(resumed), 2 * ran);
    EXPECT_THAT(resumed.newest_batches().batches, ElementsAre(ran, ran));
  }
}

} // namespace
} // namespace dynamix::client
