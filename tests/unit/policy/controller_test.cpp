#include "policy/controller.hpp"
#include "policy/learner.hpp"
#include "policy/measured_cluster.hpp"
#include "policy/policy_file.hpp"
#include "policy/policy_network.hpp"
#include "samples.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

namespace dynamix::policy {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

cluster::cluster_file frozen_file(cluster::policy_kind kind = cluster::policy_kind::ppo_add) {
  auto file = testing::make_file(kind);
  file.arbitrator.mode = cluster::policy_mode::infer;
  return file;
}

/// A version whose policy prefers the action at `favourite` with log-odds of `strength`, whatever the state.
messages::policy_version favouring(const cluster::cluster_file& file, std::size_t favourite, float strength,
                                   std::uint64_t version) {
  auto network = make_network(shape_of(file), file.seed);
  for (auto& [name, dimensions, numbers] : network.parameters())
    if (name == "policy.2.bias")
      numbers[favourite] = strength;
  return {.version = version, .parameters = storage::encode(to_file(network, shape_of(file), version))};
}

TEST(StaticPolicy, KeepsWhatIsAssigned) {
  auto controller = testing::make_measured(testing::make_file(cluster::policy_kind::static_batch), {});
  const auto shard = testing::make_shard(3);
  const auto choices = controller.decide(shard, 96);
  ASSERT_EQ(choices.size(), 3U);
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(choices[i].rank, i);
    EXPECT_EQ(choices[i].batch, 96U);
    EXPECT_EQ(choices[i].action, -1);
    EXPECT_TRUE(choices[i].state.empty());
    EXPECT_FALSE(choices[i].reason.empty());
  }
  EXPECT_EQ(controller->name(), "static");
  EXPECT_FALSE(controller->learns());
  EXPECT_THAT(controller->adopt({}), HasSubstr("does not learn"));
  EXPECT_THROW(make_controller(testing::make_file(cluster::policy_kind::static_batch), {1}), std::invalid_argument);
}

TEST(LearnedPolicy, TellsAllThatIsNeededToLearnAndToExplain) {
  for (const auto kind : {cluster::policy_kind::ppo_add, cluster::policy_kind::ppo_simple}) {
    const auto file = testing::make_file(kind);
    auto controller = testing::make_measured(file, {});
    EXPECT_EQ(controller->name(), cluster::to_string(kind));
    EXPECT_TRUE(controller->learns());
    for (const auto& one : controller.decide(testing::make_shard(16))) {
      EXPECT_EQ(one.state.size(), state_size());
      ASSERT_EQ(one.probabilities.size(), 5U);
      EXPECT_NEAR(std::accumulate(one.probabilities.begin(), one.probabilities.end(), 0.0), 1, 1e-5);
      ASSERT_TRUE(one.action >= 0 && one.action < 5);
      EXPECT_NEAR(one.log_probability, std::log(one.probabilities[one.action]), 1e-5);
      const auto expected = std::clamp(64 + file.arbitrator.actions[one.action], 32, 1024);
      EXPECT_EQ(one.batch, static_cast<std::uint32_t>(expected));
    }
  }
}

TEST(LearnedPolicy, ExplainsItselfInOneSentence) {
  const auto file = testing::make_file();
  auto controller = testing::make_measured(file, favouring(file, 4, 20, 1).parameters);
  const auto shard = testing::make_shard(1);
  EXPECT_THAT(controller.decide(shard, 64)[0].reason,
              MatchesRegex("action \\+100 \\(p=1.00\\), value -?[0-9]+\\.[0-9]+"));
  EXPECT_THAT(controller.decide(shard, 1000)[0].reason, MatchesRegex("action \\+100 .*; clamped at 1024"));
  const auto simple_file = testing::make_file(cluster::policy_kind::ppo_simple);
  auto simple = testing::make_measured(simple_file, favouring(simple_file, 0, 20, 1).parameters);
  EXPECT_EQ(simple.decide(shard, 64)[0].reason, "action -100 (p=1.00); clamped at 32");
}

TEST(PlannedPolicy, WaitsForAMeasurementAndThenActsOnThePlan) {
  const auto file = testing::make_file(cluster::policy_kind::ppo);
  auto controller = testing::make_measured(file);
  auto unmeasured = testing::make_shard(4);
  for (auto& report : unmeasured.reports)
    report.training.steps = 0;
  for (const auto& one : controller.decide(unmeasured, 80)) {
    EXPECT_EQ(one.batch, 80U);
    EXPECT_EQ(one.action, -1) << "nothing to learn from";
  }
  const auto choices = controller.decide(testing::make_shard(4, 2));
  const auto actions = file.arbitrator.scales.size() * beliefs;
  for (const auto& one : choices) {
    EXPECT_EQ(one.probabilities.size(), actions);
    ASSERT_TRUE(one.action >= 0 && one.action < static_cast<std::int32_t>(actions));
    EXPECT_EQ(one.action / beliefs, choices[0].action / beliefs) << "fresh parameters vote alike";
    EXPECT_NEAR(one.log_probability, std::log(one.probabilities[one.action]), 1e-5);
    EXPECT_THAT(one.reason, MatchesRegex("votes [0-9]+ % of the planned step, goes by .*; [0-9]+ in all .*"));
  }
  EXPECT_GT(choices[0].batch, choices[3].batch) << "host 3 computes four times as long";
}

TEST(PlannedPolicy, ThatPrefersThePlanDoesAsGoodputDoes) {
  auto file = testing::make_file(cluster::policy_kind::ppo);
  file.arbitrator.mode = cluster::policy_mode::infer;
  file.batch.lowest = 8; // where a worker sits at its lowest, ppo lets the others fill the step and goodput does not
  auto planned = testing::make_measured(file, favouring(file, 2 * beliefs, 20, 1).parameters); // 100 %, average
  file.arbitrator.policy = cluster::policy_kind::goodput;
  auto goodput = testing::make_measured(file);
  for (std::uint64_t window = 1; window < 5; ++window) {
    const auto shard = testing::make_shard(3, window);
    const auto theirs = goodput.decide(shard);
    const auto ours = planned.decide(shard);
    for (std::size_t i = 0; i < ours.size(); ++i)
      EXPECT_NEAR(ours[i].batch, theirs[i].batch, 1) << window;
  }
}

TEST(LearnedPolicy, DrawsInTrainingAndTakesTheBestInInference) {
  const auto file = testing::make_file();
  const auto version = favouring(file, 3, 1, 1); // p about 0.4 against 0.15 each
  const auto shard = testing::make_shard(1);
  auto drawing = testing::make_measured(file, version.parameters);
  auto greedy = testing::make_measured(frozen_file(), version.parameters);
  constexpr int draws = 4000;
  int favourites = 0;
  double probability = 0;
  for (int i = 0; i < draws; ++i) {
    const auto chosen = drawing.decide(shard)[0];
    favourites += chosen.action == 3;
    probability = chosen.probabilities[3];
    EXPECT_EQ(greedy.decide(shard)[0].action, 3);
  }
  EXPECT_NEAR(favourites, draws * probability, 4 * std::sqrt(draws * probability * (1 - probability)));
}

TEST(LearnedPolicy, RepeatsItselfForTheSameSeedWhateverTorchsGeneratorDoes) {
  auto file = testing::make_file();
  const auto actions_of = [](const cluster::cluster_file& used, int torch_seed) {
    torch::manual_seed(torch_seed);
    auto controller = testing::make_measured(used, {});
    std::vector<std::int32_t> actions;
    for (std::uint64_t window = 1; window <= 20; ++window)
      for (const auto& one : controller.decide(testing::make_shard(4, window)))
        actions.push_back(one.action);
    return actions;
  };
  const auto first = actions_of(file, 1);
  EXPECT_EQ(actions_of(file, 2), first);
  file.seed = 8;
  EXPECT_NE(actions_of(file, 1), first);
}

TEST(LearnedPolicy, SeesTheGainOverTheWindowBefore) {
  auto controller = testing::make_measured(testing::make_file(), {});
  auto shard = testing::make_shard(2, 1);
  controller.decide(shard);
  shard = testing::make_shard(2, 2);
  shard.reports[1].training.accuracy += 0.1;
  const auto choices = controller.decide(shard);
  const auto fields = state_fields();
  const auto gain = std::ranges::find(fields, "accuracy_gain", &state_field::name) - fields.begin();
  EXPECT_NEAR(choices[0].state[gain], 0, 1e-6);
  EXPECT_NEAR(choices[1].state[gain], 2, 1e-5);
}

TEST(LearnedPolicy, DecidesNothingOnNoReportsAndWantsAnAssignedBatchForEach) {
  auto controller = testing::make_measured(testing::make_file(), {});
  EXPECT_TRUE(controller.decide(testing::make_shard(0)).empty());
  const auto shard = testing::make_shard(2);
  EXPECT_THROW(controller.decide(shard, std::vector<std::uint32_t>{64}), std::invalid_argument);
}

TEST(LearnedPolicy, BeginsWithTheLearnersParameters) {
  const auto file = testing::make_file();
  auto fresh = testing::make_measured(file, {});
  auto given = testing::make_measured(file, make_learner(file, {})->current().parameters);
  auto saved = testing::make_measured(file, make_learner(file, {})->save());
  const auto shard = testing::make_shard(8);
  const auto expected = fresh.decide(shard);
  const auto from_current = given.decide(shard);
  const auto from_save = saved.decide(shard);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(from_current[i].probabilities, expected[i].probabilities);
    EXPECT_EQ(from_save[i].probabilities, expected[i].probabilities);
    EXPECT_EQ(from_current[i].value, expected[i].value);
  }
}

TEST(Adopt, TakesNewerVersionsAtOnce) {
  const auto file = testing::make_file();
  auto controller = testing::make_measured(file, {});
  EXPECT_EQ(controller->version(), 0U);
  EXPECT_EQ(controller->adopt(favouring(file, 2, 20, 3)), "");
  EXPECT_EQ(controller->version(), 3U);
  EXPECT_EQ(controller.decide(testing::make_shard(1))[0].action, 2);
  EXPECT_EQ(controller->adopt(favouring(file, 2, 20, 3)), "") << "the same again does no harm";
}

TEST(Adopt, RefusesWhatDoesNotFitAndChangesNothing) {
  const auto file = testing::make_file();
  auto controller = testing::make_measured(file, favouring(file, 2, 20, 5).parameters);
  const auto before = controller.decide(testing::make_shard(1))[0].probabilities;
  EXPECT_THAT(controller->adopt(favouring(file, 1, 20, 4)), HasSubstr("is older than 5"));
  auto damaged = favouring(file, 1, 20, 6);
  damaged.parameters[damaged.parameters.size() - 40] ^= 1;
  EXPECT_NE(controller->adopt(damaged), "");
  auto mislabelled = favouring(file, 1, 20, 6);
  mislabelled.version = 7;
  EXPECT_THAT(controller->adopt(mislabelled), HasSubstr("holds the parameters of version \"6\""));
  auto other = file;
  other.arbitrator.actions = {-1, 0, 1};
  EXPECT_THAT(controller->adopt(favouring(other, 1, 20, 6)), HasSubstr("its actions are -1,0,1"));
  std::size_t numbers = 0;
  const policy_network largest(messages::max_state_size, messages::max_actions, 768); // the limit of ppo.hidden
  for (const auto& parameter : largest.parameters())
    numbers += parameter.numbers.size();
  EXPECT_LE(3 * sizeof(float) * numbers, messages::max_policy_bytes) << "a learner that the file allows is read again";
  messages::policy_version huge{.version = 6, .parameters = std::vector<std::uint8_t>(messages::max_policy_bytes + 1)};
  EXPECT_THAT(controller->adopt(huge), HasSubstr("larger than"));
  EXPECT_NE(controller->adopt({.version = 6, .parameters = {}}), "");
  EXPECT_EQ(controller->version(), 5U);
  EXPECT_EQ(controller.decide(testing::make_shard(1))[0].probabilities, before);
}

TEST(Adopt, IsRefusedByAFrozenPolicy) {
  auto controller = testing::make_measured(frozen_file(), {});
  EXPECT_FALSE(controller->learns());
  EXPECT_THAT(controller->adopt(favouring(testing::make_file(), 2, 20, 3)), HasSubstr("frozen"));
}

TEST(MakeController, RefusesParametersThatDoNotFit) {
  const auto file = testing::make_file();
  EXPECT_THROW(make_controller(file, {1, 2, 3}), std::invalid_argument);
  const auto simple = make_learner(testing::make_file(cluster::policy_kind::ppo_simple), {})->current();
  EXPECT_THROW(make_controller(file, simple.parameters), std::invalid_argument);
}

} // namespace
} // namespace dynamix::policy
