#include "policy/rollout.hpp"
#include "samples.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace dynamix::policy {
namespace {

using messages::decision_key;

/// A choice that carries its window wherever a transition can, so that it is known again.
choice make_choice(std::uint32_t rank, std::uint64_t window) {
  return {.rank = rank,
          .batch = 64,
          .action = static_cast<std::int32_t>(window % 5),
          .state = {static_cast<float>(rank), static_cast<float>(window)},
          .probabilities = {},
          .log_probability = -static_cast<float>(window),
          .value = 10 * static_cast<float>(window)};
}

void decide(rollout_builder& builder, std::uint32_t rank, std::uint64_t window, std::uint64_t version = 1) {
  builder.decided({1, window}, make_choice(rank, window), version);
}

std::vector<float> rewards_of(const messages::trajectory& trajectory) {
  std::vector<float> rewards;
  for (const auto& step : trajectory.transitions)
    rewards.push_back(step.reward);
  return rewards;
}

using ::testing::ElementsAre;

TEST(Rollout, JoinsADecisionWithTheFirstWindowUnderIt) {
  rollout_builder builder(2);
  decide(builder, 0, 1);
  builder.rewarded(0, {0, 0}, 100); // window 2 still ran under no decision
  decide(builder, 0, 2);
  EXPECT_TRUE(builder.take(1).empty());
  builder.rewarded(0, {1, 1}, 3);
  decide(builder, 0, 3);
  EXPECT_TRUE(builder.take(1).empty());
  builder.rewarded(0, {1, 2}, 4);
  decide(builder, 0, 4);
  const auto rollout = builder.take(1);
  ASSERT_EQ(rollout.size(), 1U);
  EXPECT_THAT(rewards_of(rollout[0]), ElementsAre(3, 4));
  const auto& step = rollout[0].transitions[1];
  EXPECT_THAT(step.state, ElementsAre(0, 2));
  EXPECT_EQ(step.action, 2U);
  EXPECT_EQ(step.log_probability, -2);
  EXPECT_EQ(step.value, 20);
  EXPECT_EQ(rollout[0].bootstrap_value, 30); // decision 3 follows decision 2
  EXPECT_TRUE(builder.take(1).empty()) << "taken out";
}

TEST(Rollout, FurtherWindowsUnderTheSameDecisionGiveNothing) {
  rollout_builder builder(1);
  decide(builder, 0, 1);
  builder.rewarded(0, {1, 1}, 5);
  builder.rewarded(0, {1, 1}, 6);
  builder.rewarded(0, {1, 1}, 7);
  const auto rollout = builder.take(1);
  ASSERT_EQ(rollout.size(), 1U);
  EXPECT_THAT(rewards_of(rollout[0]), ElementsAre(5));
}

TEST(Rollout, DropsADecisionThatANewerOneOvertook) {
  rollout_builder builder(1);
  decide(builder, 0, 1);
  decide(builder, 0, 2);
  builder.rewarded(0, {1, 2}, 9);
  builder.rewarded(0, {1, 1}, 1); // cannot be: it never came into force
  const auto rollout = builder.take(1);
  ASSERT_EQ(rollout.size(), 1U);
  EXPECT_THAT(rewards_of(rollout[0]), ElementsAre(9));
  EXPECT_EQ(rollout[0].bootstrap_value, 0) << "nothing waits";
}

TEST(Rollout, SplitsWhereThePolicyVersionChanged) {
  rollout_builder builder(3);
  decide(builder, 0, 1, 4);
  decide(builder, 0, 2, 4);
  decide(builder, 0, 3, 5);
  for (std::uint64_t window = 1; window <= 3; ++window)
    builder.rewarded(0, {1, window}, static_cast<double>(window));
  decide(builder, 0, 4, 5);
  const auto rollout = builder.take(1);
  ASSERT_EQ(rollout.size(), 2U);
  EXPECT_EQ(rollout[0].policy_version, 4U);
  EXPECT_THAT(rewards_of(rollout[0]), ElementsAre(1, 2));
  EXPECT_EQ(rollout[0].bootstrap_value, 30);
  EXPECT_EQ(rollout[1].policy_version, 5U);
  EXPECT_THAT(rewards_of(rollout[1]), ElementsAre(3));
  EXPECT_EQ(rollout[1].bootstrap_value, 40);
}

TEST(Rollout, WaitsForEveryWorkerAndGivesAllThereIs) {
  rollout_builder builder(1);
  decide(builder, 0, 1);
  decide(builder, 0, 2);
  builder.rewarded(0, {1, 1}, 1);
  builder.rewarded(0, {1, 2}, 2);
  EXPECT_TRUE(builder.take(2).empty());
  decide(builder, 7, 2);
  builder.rewarded(7, {1, 2}, 3);
  const auto rollout = builder.take(2);
  ASSERT_EQ(rollout.size(), 2U);
  EXPECT_EQ(rollout[0].rank, 0U);
  EXPECT_THAT(rewards_of(rollout[0]), ElementsAre(1, 2));
  EXPECT_EQ(rollout[1].rank, 7U);
}

TEST(Rollout, GoesOnWithoutAWorkerThatLeft) {
  rollout_builder builder(1);
  decide(builder, 0, 1);
  decide(builder, 1, 1);
  builder.rewarded(0, {1, 1}, 1);
  EXPECT_TRUE(builder.take(2).empty());
  builder.forget(1);
  EXPECT_EQ(builder.take(1).size(), 1U);
}

TEST(Rollout, TakesNoDecisionTwiceNorAnOlderOne) {
  rollout_builder builder(1);
  decide(builder, 0, 2);
  decide(builder, 0, 2);
  decide(builder, 0, 1);
  builder.rewarded(0, {1, 2}, 1);
  decide(builder, 0, 2);
  builder.rewarded(0, {1, 2}, 2);
  const auto rollout = builder.take(1);
  ASSERT_EQ(rollout.size(), 1U);
  EXPECT_THAT(rewards_of(rollout[0]), ElementsAre(1));
}

TEST(Rollout, IgnoresControllersWithoutActionsAndWorkersItDoesNotKnow) {
  rollout_builder builder(1);
  builder.decided({1, 1}, {.rank = 0, .batch = 64, .state = {}, .probabilities = {}, .reason = {}}, 0);
  builder.rewarded(0, {1, 1}, 1);
  builder.rewarded(99, {1, 1}, 1);
  EXPECT_TRUE(builder.take(1).empty());
  EXPECT_TRUE(builder.take(0).empty());
}

TEST(Rollout, KeepsABoundedNumberOfWaitingDecisions) {
  rollout_builder builder(1);
  for (std::uint64_t window = 1; window <= rollout_builder::max_waiting + 1; ++window)
    decide(builder, 0, window);
  builder.rewarded(0, {1, 1}, 1); // was dropped
  EXPECT_TRUE(builder.take(1).empty());
  builder.rewarded(0, {1, 2}, 2);
  EXPECT_EQ(builder.take(1).size(), 1U);
}

TEST(Rollout, KeepsABoundedNumberOfTransitions) {
  rollout_builder builder(1);
  const std::uint64_t windows = messages::max_trajectory_length + 10;
  for (std::uint64_t window = 1; window <= windows; ++window) {
    decide(builder, 0, window);
    builder.rewarded(0, {1, window}, static_cast<double>(window));
  }
  const auto rollout = builder.take(1);
  ASSERT_EQ(rollout.size(), 1U);
  EXPECT_EQ(rollout[0].transitions.size(), messages::max_trajectory_length);
  EXPECT_EQ(rollout[0].transitions.back().reward, static_cast<float>(windows));
}

/// One worker's life on a bad network: decisions get lost or come late, reports get lost.
struct simulated_worker {
  std::vector<std::pair<std::uint64_t, decision_key>> arrivals; ///< window from which on it holds, key
  decision_key in_force;
  std::vector<std::pair<std::uint64_t, float>> expected; ///< decision's window, reward
};

TEST(Rollout, GivesExactlyTheRewardedDecisionsOf32WorkersWithLossesAndDelays) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::mt19937_64 generator(seed);
    constexpr std::uint32_t workers = 32;
    rollout_builder builder(8);
    std::vector<simulated_worker> simulated(workers);
    std::vector<std::vector<std::pair<std::uint64_t, float>>> taken(workers);
    std::uint64_t version = 1;
    for (std::uint64_t window = 1; window <= 200; ++window) {
      for (std::uint32_t rank = 0; rank < workers; ++rank) {
        auto& worker = simulated[rank];
        for (const auto& [from, key] : worker.arrivals)
          if (from <= window)
            worker.in_force = std::max(worker.in_force, key);
        std::erase_if(worker.arrivals, [window](const auto& arrival) { return arrival.first <= window; });
        if (generator() % 10 == 0)
          continue; // the report got lost, and nothing is decided on it
        const auto reward = static_cast<float>(window * 100 + rank);
        const auto key = worker.in_force;
        if (key.window > 0 && (worker.expected.empty() || worker.expected.back().first < key.window))
          worker.expected.emplace_back(key.window, reward);
        builder.rewarded(rank, key, reward);
        builder.decided({1, window}, make_choice(rank, window), version);
        if (generator() % 5 != 0) // else the decision gets lost
          worker.arrivals.emplace_back(window + 1 + generator() % 4, decision_key{1, window});
      }
      const auto rollout = builder.take(workers);
      for (const auto& trajectory : rollout)
        for (const auto& step : trajectory.transitions)
          taken[trajectory.rank].emplace_back(static_cast<std::uint64_t>(step.state[1]), step.reward);
      version += rollout.empty() ? 0 : 1;
    }
    EXPECT_GT(version, 5U);
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
      auto expected = simulated[rank].expected;
      ASSERT_LE(taken[rank].size(), expected.size());
      ASSERT_GT(taken[rank].size(), 50U);
      expected.resize(taken[rank].size()); // the rest waits for the next rollout
      EXPECT_EQ(taken[rank], expected) << "worker " << rank << ", seed " << seed;
    }
  }
}

} // namespace
} // namespace dynamix::policy
