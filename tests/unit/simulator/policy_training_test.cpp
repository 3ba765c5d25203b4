#include "simulator/policy_training.hpp"
#include "tests/unit/seeds.hpp"
#include "tests/unit/simulator/small_cluster.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace dynamix::simulator {
namespace {

using ::testing::HasSubstr;
using testing::small_cluster;

policy_training_options small(std::uint32_t jobs = 1, std::uint64_t seed = 1) {
  return {.seed = seed, .environments = 4, .jobs = jobs};
}

std::vector<std::uint8_t> train_rounds(policy_training_options options, int rounds) {
  policy_training training({small_cluster(4), small_cluster(3)}, options, policy::make_learner);
  for (int i = 0; i < rounds; ++i)
    training.run_round();
  return training.save();
}

template <class Work>
std::string refusal(Work work) {
  try {
    work();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST(PolicyTraining, LearnsTheSameForASeedOnAnyNumberOfThreads) {
  const auto alone = train_rounds(small(1), 3);
  EXPECT_EQ(train_rounds(small(1), 3), alone);
  EXPECT_EQ(train_rounds(small(3), 3), alone);
  EXPECT_NE(train_rounds(small(1, 2), 3), alone);
}

TEST(PolicyTraining, GivesEveryScenarioTheSameNumberOfEnvironments) {
  EXPECT_EQ(policy_training({small_cluster(), small_cluster(), small_cluster()}, small(), policy::make_learner)
                .environments(),
            6U);
  EXPECT_EQ(policy_training({small_cluster(), small_cluster()}, small(), policy::make_learner).environments(), 4U);
}

TEST(PolicyTraining, BeginsTheNextEpisodeWhereOneHasEnded) {
  auto brief = small_cluster();
  brief.file.training.epochs = 1; // some 30 windows of 4 x 32 x 5 samples, fewer as batch sizes grow
  policy_training training({brief}, small(), policy::make_learner);
  training.run_round();
  EXPECT_EQ(training.episodes(), 4U);
  for (int i = 0; i < 8; ++i)
    training.run_round();
  EXPECT_GT(training.episodes(), 4U);
  EXPECT_EQ(training.updates(), 9U);
  EXPECT_EQ(training.current().version, 9U);
}

TEST(PolicyTraining, SaysThatRunsAreTooShortForARollout) {
  auto brief = small_cluster();
  brief.file.training.epochs = 0.02;
  policy_training training({brief}, small(), policy::make_learner);
  EXPECT_THAT(refusal([&] { training.run_round(); }), HasSubstr("no environment gave a rollout of ppo.horizon = 8"));
}

TEST(PolicyTraining, LearnsFromAFewWorkersOfALargeCluster) {
  policy_training training({small_cluster(30)}, {.environments = 1}, policy::make_learner);
  for (int i = 0; i < 3; ++i) {
    const auto point = training.run_round();
    EXPECT_GE(point.transitions, 7 * 8) << "every fourth of 30 workers, a horizon of 8";
    EXPECT_LE(point.transitions, 8 * 8 + 8);
  }
}

TEST(PolicyTraining, NotesWhatAnUpdateWasLike) {
  policy_training training({small_cluster()}, small(), policy::make_learner);
  EXPECT_TRUE(training.curve().empty());
  const auto point = training.run_round();
  EXPECT_EQ(point.update, 1);
  EXPECT_GE(point.windows, 4 * 8);
  EXPECT_EQ(point.transitions, 4 * 4 * 8) << "4 environments of 4 workers";
  EXPECT_TRUE(std::isfinite(point.reward));
  EXPECT_GT(point.entropy, 0);
  EXPECT_FALSE(std::isfinite(point.against_goodput));
  EXPECT_EQ(training.curve().size(), 1U);
}

TEST(PolicyTraining, KeepsTheBestOfTheValidatedVersions) {
  policy_training training({small_cluster()}, small(), policy::make_learner);
  EXPECT_EQ(training.best(), nullptr);
  EXPECT_TRUE(training.record({.against_goodput = 0.8, .against_static = 2}));
  EXPECT_EQ(training.best()->update, 0) << "the fresh policy";
  training.run_round();
  EXPECT_TRUE(training.record({.against_goodput = 0.9, .against_static = 2.5}));
  training.run_round();
  EXPECT_FALSE(training.record({.against_goodput = 0.85, .against_static = 3}));
  EXPECT_EQ(training.best()->update, 1);
  EXPECT_EQ(training.curve().back().against_static, 3);
}

TEST(PolicyTraining, GoesOnFromWhatWasSaved) {
  policy_training first({small_cluster()}, small(), policy::make_learner);
  first.run_round();
  first.record({.against_goodput = 0.9, .against_static = 2});
  first.run_round();
  const auto saved = first.save();

  policy_training second({small_cluster()}, small(), policy::make_learner, saved);
  EXPECT_EQ(second.save(), saved) << "parameters, Adam's moments, the generator, counters and curve";
  EXPECT_EQ(second.current(), first.current());
  EXPECT_EQ(second.updates(), 2U);
  EXPECT_EQ(second.windows(), first.windows());
  EXPECT_EQ(second.best()->update, 1);
  const auto point = second.run_round();
  EXPECT_EQ(point.update, 3);
  EXPECT_EQ(second.current().version, 3U);
  EXPECT_EQ(second.episodes(), first.episodes() + 4) << "episodes of their own";
}

TEST(PolicyTraining, RefusesWhatItCannotGoOnFrom) {
  const std::vector<scenario> scenarios = {small_cluster()};
  const policy_training training(scenarios, small(), policy::make_learner);
  EXPECT_THAT(
      refusal([&] { policy_training(scenarios, small(), policy::make_learner, training.current().parameters); }),
      HasSubstr("a policy, not a training"));
  EXPECT_NE(refusal([&] { policy_training(scenarios, small(), policy::make_learner, {1, 2, 3, 4, 5, 6, 7, 8}); }), "");
  auto untaught = small_cluster();
  untaught.file.arbitrator.policy = cluster::policy_kind::goodput;
  EXPECT_THAT(refusal([&] { policy_training({untaught}, small(), policy::make_learner); }),
              HasSubstr("\"goodput\" learns nothing"));
  EXPECT_THAT(refusal([&] { policy_training({}, small(), policy::make_learner); }), HasSubstr("no scenario"));
}

TEST(PolicyTraining, BringsScenariosInLineWithTheFirst) {
  std::vector<scenario> scenarios = {small_cluster(), small_cluster()};
  scenarios[0].file.ppo.hidden = 16;
  scenarios[1].file.arbitrator.policy = cluster::policy_kind::static_batch;
  scenarios[1].file.arbitrator.guard = true;
  scenarios[1].file.arbitrator.shadow = true;
  scenarios[1].file.arbitrator.window_steps = 7;
  align(scenarios);
  EXPECT_EQ(scenarios[1].file.ppo.hidden, 16U);
  EXPECT_EQ(scenarios[1].file.arbitrator.policy, cluster::policy_kind::ppo);
  EXPECT_FALSE(scenarios[1].file.arbitrator.guard);
  EXPECT_FALSE(scenarios[1].file.arbitrator.shadow);
  EXPECT_EQ(scenarios[1].file.arbitrator.window_steps, 7U) << "what does not shape the policy stays";
}

/// Mean reward of the last third of a short training less that of the first. A round before them is left out: it begins
/// with every environment's first window, when nothing has been measured.
double rise(std::uint64_t seed) {
  constexpr std::size_t third = 10;
  auto scenario = small_cluster();
  scenario.file.ppo.learning_rate = 0.001;
  scenario.file.arbitrator.balance = cluster::balance_kind::off; // shares are what it can learn here
  policy_training training({scenario}, {.seed = seed, .environments = 8, .jobs = 2}, policy::make_learner);
  training.run_round();
  double first = 0;
  double last = 0;
  for (std::size_t i = 0; i < 3 * third; ++i) {
    const double reward = training.run_round().reward;
    first += i < third ? reward / third : 0;
    last += i >= 2 * third ? reward / third : 0;
  }
  return last - first;
}

TEST(PolicyTraining, EarnsMoreAsItLearns) {
  const auto earns_more = [](std::uint64_t seed) { return rise(seed) > 0.01; }; // one that stands still: below 0.004
  EXPECT_GE(count_seeds(3, earns_more), 2) << "of 3 seeds";
}

} // namespace
} // namespace dynamix::simulator
