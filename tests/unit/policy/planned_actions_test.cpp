#include "policy/planned_actions.hpp"
#include "samples.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>

namespace dynamix::policy {
namespace {

using ::testing::ElementsAre;

constexpr cluster::batch limits{.initial = 64, .lowest = 8, .highest = 1024};
const std::vector<std::int32_t> scales = {50, 100, 200};

measured_cluster two_equal_workers() {
  measured_cluster measured(limits);
  auto shard = testing::make_shard(2);
  for (auto& report : shard.reports) {
    report.batch = 64;
    report.training.compute_seconds = 0.02;
  }
  measured.measure(shard);
  return measured;
}

TEST(PlannedActions, NameEveryScaleWithEveryBelief) {
  std::set<std::pair<std::int32_t, belief>> seen;
  for (std::size_t index = 0; index < scales.size() * beliefs; ++index) {
    const auto action = to_planned_action(index, scales);
    seen.emplace(action.scale, action.how);
  }
  EXPECT_EQ(seen.size(), 9U);
  EXPECT_EQ(to_planned_action(4, scales).scale, 100);
  EXPECT_EQ(to_planned_action(4, scales).how, belief::newest);
}

TEST(PlannedActions, AreDrawnWithOneVoteAndBeliefsOfTheirOwn) {
  const std::vector<float> even(9, 1.0F / 9);
  std::mt19937_64 generator(5);
  std::vector<int> counts(9);
  std::set<std::size_t> beliefs_seen;
  for (int window = 0; window < 9000; ++window) {
    const auto common = generator;
    generator.discard(1);
    const auto first = draw_planned_action(even, common, generator);
    const auto second = draw_planned_action(even, common, generator);
    ASSERT_EQ(first / beliefs, second / beliefs) << "equal probabilities vote alike";
    beliefs_seen.insert(first % beliefs * beliefs + second % beliefs);
    ++counts[first];
  }
  EXPECT_EQ(beliefs_seen.size(), 9U) << "beliefs are drawn apart";
  for (const auto count : counts)
    EXPECT_NEAR(count, 1000, 150);
}

TEST(PlannedActions, ScaleTheStepTimeByTheMeanVote) {
  const auto measured = two_equal_workers();
  const auto apply = [&](std::int32_t one, std::int32_t other) {
    const std::vector<planned_action> actions = {{.scale = one}, {.scale = other}};
    return find_planned_target(measured, actions, {64, 64}).plan.batches;
  };
  // 64 samples take 20 ms; above that half of the step is taken to be fixed.
  EXPECT_THAT(apply(100, 100), ElementsAre(64, 64));
  EXPECT_THAT(apply(200, 200), ElementsAre(192, 192));
  EXPECT_THAT(apply(50, 50), ElementsAre(32, 32));
  EXPECT_THAT(apply(50, 200), ElementsAre(64, 64)) << "the mean is geometric; nobody is left behind by its own vote";
  EXPECT_THAT(apply(100, 102), ElementsAre(64, 64)) << "too little to move for";
}

TEST(PlannedActions, NeverMakeASlowWorkerTakeWhatTheOthersCannot) {
  auto measured = two_equal_workers();
  auto shard = testing::make_shard(2, 2);
  shard.reports[0].batch = limits.highest;
  shard.reports[0].training.compute_seconds = 0.02;
  shard.reports[1].batch = 64;
  shard.reports[1].training.compute_seconds = 0.02;
  measured.measure(shard); // host 0 computes any batch in 20 ms
  const std::vector<planned_action> up(2, {.scale = 118});
  const auto batches = find_planned_target(measured, up, {limits.highest, 64}).plan.batches;
  EXPECT_EQ(batches[0], limits.highest);
  EXPECT_NEAR(batches[1], 64 * 1.36, 1) << "18 % more time, and no share of what host 0 has no room for";
}

TEST(PlannedActions, StayInsideTheLimits) {
  const auto measured = two_equal_workers();
  const std::vector<planned_action> up(2, {.scale = 100000});
  EXPECT_THAT(find_planned_target(measured, up, {64, 64}).plan.batches, ElementsAre(1024, 1024));
  const std::vector<planned_action> down(2, {.scale = 1});
  EXPECT_THAT(find_planned_target(measured, down, {64, 64}).plan.batches, ElementsAre(8, 8));
}

TEST(PlanView, IsMaskedUntilSomethingIsMeasured) {
  measured_cluster measured(limits);
  auto shard = testing::make_shard(2);
  for (auto& report : shard.reports)
    report.training.steps = 0;
  measured.measure(shard);
  for (const auto& view : view_plan(measured, {}, {64, 64}))
    EXPECT_FALSE(view.valid);
  const auto known = two_equal_workers();
  const auto views = view_plan(known, known.split(256), {64, 32});
  EXPECT_TRUE(views[1].valid);
  EXPECT_EQ(views[1].planned_batch, 128);
  EXPECT_EQ(views[1].planned_total, 256);
  EXPECT_EQ(views[1].assigned_total, 96);
}

} // namespace
} // namespace dynamix::policy
