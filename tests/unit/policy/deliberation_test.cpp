#include "policy/deliberation.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>

namespace dynamix::policy {
namespace {

/// Adds 100 to every batch and counts what it is asked.
class greedy_controller final : public controller {
public:
  std::string name() const override { return "greedy"; }
  std::vector<choice> propose(const observation& observed, const ruling&) override {
    std::vector<choice> choices;
    for (std::size_t i = 0; i < observed.assigned.size(); ++i)
      choices.push_back({.rank = observed.report->reports[i].rank,
                         .batch = observed.assigned[i] + 100,
                         .action = 4,
                         .state = {1.0F},
                         .probabilities = {1.0F}});
    return choices;
  }
  bool learns() const override { return true; }
};

messages::shard_report shard_of(std::uint64_t window, messages::decision_key in_force, bool final = false) {
  messages::shard_report shard{.window = window, .generation = 1, .reports = {}, .expected = 2};
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    messages::window_report report{.host = "w" + std::to_string(rank),
                                   .rank = rank,
                                   .generation = 1,
                                   .window = window,
                                   .first_step = (window - 1) * 10,
                                   .final = final,
                                   .batch = 64,
                                   .decision = in_force};
    report.training.accuracy = 0.1 * static_cast<double>(window);
    report.training.iteration_seconds = 0.1;
    shard.reports.push_back(report);
  }
  return shard;
}

class Deliberation : public ::testing::Test {
protected:
  Deliberation() {
    file.batch.highest = 300;
    file.reward.kind = cluster::reward_kind::paper;
    file.ppo.horizon = 2;
    judge.emplace(file, std::make_unique<greedy_controller>());
  }
  cluster::cluster_file file;
  std::optional<deliberation> judge;
};

TEST_F(Deliberation, AddsToTheBatchLastDecidedAndStaysInBounds) {
  const std::uint32_t expected[] = {164, 264, 300, 300};
  for (std::uint64_t window = 1; window <= 4; ++window) {
    const auto result = judge->consider(shard_of(window, {}));
    ASSERT_EQ(result.decisions.size(), 2U);
    EXPECT_EQ(result.decisions[0].batch, expected[window - 1]);
    EXPECT_EQ(result.decisions[1].rank, 1U);
    EXPECT_EQ(result.decisions[0].key, (messages::decision_key{1, window}));
    EXPECT_EQ(result.decisions[0].first_step, window * 10 + 2) << "the window after this one is running already";
  }
}

TEST_F(Deliberation, DecidesForABoundaryAlsoAfterAResumeInMidWindow) {
  auto shard = shard_of(3, {});
  for (auto& report : shard.reports)
    report.first_step = 23; // of window 3, which ends with step 29
  EXPECT_EQ(judge->consider(shard).decisions[0].first_step, 32U);
}

TEST_F(Deliberation, IsNotPutOffByAWorkerThatClaimsToBeFarAhead) {
  auto shard = shard_of(3, {});
  shard.reports.push_back(shard.reports[0]);
  shard.reports[2].rank = 2;
  shard.reports[1].first_step = 1ULL << 40;
  const auto result = judge->consider(shard);
  for (const auto& decision : result.decisions)
    EXPECT_EQ(decision.first_step, 32U);
  ASSERT_EQ(result.doubted.size(), 1U);
  EXPECT_EQ(result.doubted[0].rank, 1U);
}

TEST_F(Deliberation, DecidesNothingOnTheLastWindow) {
  const auto result = judge->consider(shard_of(3, {}, true));
  EXPECT_TRUE(result.decisions.empty());
  EXPECT_FALSE(result.window.decided);
  EXPECT_EQ(result.window.workers.size(), 2U);
}

TEST_F(Deliberation, RewardsTheGainOfAccuracyFromTheSecondWindowOn) {
  const auto first = judge->consider(shard_of(1, {}));
  EXPECT_EQ(first.window.workers[0].reward.gain, 0);
  const auto second = judge->consider(shard_of(2, {}));
  EXPECT_NEAR(second.window.workers[0].reward.gain, file.reward.alpha * 0.1, 1e-12);
}

TEST_F(Deliberation, HandsARolloutToTheLearnerAfterTheHorizon) {
  EXPECT_TRUE(judge->consider(shard_of(1, {})).rollout.empty());
  EXPECT_TRUE(judge->consider(shard_of(2, {})).rollout.empty()) << "nothing decided is in force yet";
  EXPECT_TRUE(judge->consider(shard_of(3, {1, 1})).rollout.empty());
  const auto rollout = judge->consider(shard_of(4, {1, 2})).rollout;
  ASSERT_EQ(rollout.size(), 2U);
  EXPECT_EQ(rollout[0].transitions.size(), 2U);
  EXPECT_NEAR(rollout[0].transitions[0].reward,
              judge->consider(shard_of(5, {1, 3})).window.workers[0].reward.total - 0.1 * 2, 0.05)
      << "the reward of the first window that ran under the decision";
}

TEST_F(Deliberation, AStaleReportEarnsNothing) {
  judge->consider(shard_of(1, {}));
  judge->consider(shard_of(2, {}));
  auto shard = shard_of(3, {1, 1});
  shard.reports[1].window = 2;
  const auto result = judge->consider(shard);
  EXPECT_FALSE(result.window.workers[0].stale);
  EXPECT_TRUE(result.window.workers[1].stale);
  EXPECT_EQ(result.decisions[0].first_step, result.decisions[1].first_step);
  EXPECT_TRUE(judge->consider(shard_of(4, {1, 2})).rollout.empty()) << "one of the two has but one transition";
}

TEST_F(Deliberation, GivesAHostNoMoreThanItsMemoryAllows) {
  file.hosts = {{.name = "w0", .port = 1, .batch_highest = 128}, {.name = "w1", .port = 2}};
  judge.emplace(file, std::make_unique<greedy_controller>());
  const auto decided = judge->consider(shard_of(1, {})).decisions;
  EXPECT_EQ(decided[0].batch, 128U);
  EXPECT_EQ(decided[1].batch, 164U);
}

TEST_F(Deliberation, ANewGenerationStartsWithWhatIsInForce) {
  judge->consider(shard_of(1, {}));
  judge->consider(shard_of(2, {}));
  auto shard = shard_of(3, {});
  shard.generation = 2;
  for (auto& report : shard.reports) {
    report.generation = 2;
    report.batch = 80;
  }
  EXPECT_EQ(judge->consider(shard).decisions[0].batch, 180U);
}

TEST_F(Deliberation, RewardsProgressWhereTheFileSaysSo) {
  file.reward.kind = cluster::reward_kind::progress;
  judge.emplace(file, std::make_unique<greedy_controller>());
  auto shard = shard_of(1, {});
  for (auto& report : shard.reports) {
    report.training.steps = 10;
    report.training.compute_seconds = report.rank == 0 ? 0.04 : 0.02;
    report.training.iteration_seconds = 0.04;
  }
  // 128 samples in 40 ms. Above 64 samples half of the 20 ms is taken to be fixed: 96 and 32 would take 25 and 20 ms,
  // 91 and 37 both 24.2 and 23.1 ms.
  const auto reward = judge->consider(shard).window.workers[1].reward;
  EXPECT_NEAR(reward.total, std::log2(24.0 / 40), 0.02);
  EXPECT_EQ(reward.total, reward.progress);
}

TEST_F(Deliberation, ATermOnlyRises) {
  judge->raise_term(7);
  judge->raise_term(3);
  EXPECT_EQ(judge->consider(shard_of(1, {})).decisions[0].key.term, 7U);
}

/// Three windows of two hosts, in the last of which one takes three times as long; what the root of a tree of `ppo`
/// rules then, if shards said of each worker that it had voted for this action.
messages::guidance ruled_on(std::int32_t vote) {
  cluster::cluster_file file;
  file.batch = {.initial = 64, .lowest = 8, .highest = 1024};
  file.arbitrator.policy = cluster::policy_kind::ppo;
  file.arbitrator.mode = cluster::policy_mode::infer;
  file.arbitrator.guard = false;
  deliberation root(file, make_controller(file, {}));
  for (std::uint64_t window = 11;; ++window) {
    auto shard = shard_of(window, {});
    messages::shard_window joined{
        .window = window, .generation = 1, .expected = 2, .reports = shard.reports, .choices = {}};
    for (auto& report : joined.reports) {
      report.batch = window == 11 ? 128 : 64;
      report.global_batch = 2 * report.batch;
      report.training.steps = 10;
      report.training.compute_seconds = (window == 13 && report.rank == 0 ? 3 : 1) * 0.02 * report.batch / 64;
      joined.choices.push_back(
          {.rank = report.rank, .key = {}, .assigned = 64, .batch = 64, .proposed = 64, .vote = vote});
    }
    auto known = root.join(joined).known;
    if (window == 13)
      return known;
  }
}

/// What lies behind the actions in memory once counted as one of them.
TEST(RootOfATree, TakesAVoteForNoActionForNone) {
  const auto none = ruled_on(-1);
  EXPECT_EQ(none.ruled_total, 128U);
  EXPECT_NE(ruled_on(7).workers[0].ruled, none.workers[0].ruled) << "100 %, by the newest window";
  for (std::int32_t vote = messages::max_actions - 8; vote < static_cast<std::int32_t>(messages::max_actions); ++vote) {
    const auto known = ruled_on(vote);
    EXPECT_EQ(known.ruled_total, none.ruled_total) << vote;
    for (std::size_t i = 0; i < 2; ++i)
      EXPECT_EQ(known.workers[i].ruled, none.workers[i].ruled) << vote;
  }
}

/// Ranks are the cluster file's; the name in a report is what its sender says.
TEST_F(Deliberation, TakesAHostsLimitByRankNotByTheReportedName) {
  file.hosts = {{.name = "w0", .port = 1, .batch_highest = 128}, {.name = "w1", .port = 2}};
  deliberation limited(file, std::make_unique<greedy_controller>());
  auto shard = shard_of(1, {});
  shard.reports[0].host = "w1";
  shard.reports[1].host = "stranger";
  const auto decisions = limited.consider(shard).decisions;
  ASSERT_EQ(decisions.size(), 2U);
  EXPECT_EQ(decisions[0].batch, 128U);
  EXPECT_EQ(decisions[1].batch, 164U);
}

} // namespace
} // namespace dynamix::policy
