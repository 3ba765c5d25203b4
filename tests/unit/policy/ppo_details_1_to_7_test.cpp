/// The 13 core implementation details of "The 37 Implementation Details of Proximal Policy Optimization" (Huang et al.,
/// ICLR blog track 2022): one test a detail at least, named after it. Here how a rollout becomes minibatches, details 1
/// to 7.

#include "parameters.hpp"
#include "policy/controller.hpp"
#include "policy/learner_tensors.hpp"
#include "policy/ppo.hpp"
#include "samples.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace dynamix::policy {
namespace {

using testing::distance;
using testing::expect_near;
using testing::parameters_of;
using testing::row;
using testing::shape;

TEST(PpoDetail1VectorisedArchitecture, WorkersAreDecidedAsOneBatchAndAlike) {
  const auto file = testing::make_file();
  const auto shard = testing::make_shard(8);
  const auto together = testing::make_measured(file).decide(shard);
  ASSERT_EQ(together.size(), 8U);
  const actor_critic network(make_network(shape, file.seed));
  for (const auto& one : together) {
    const auto state = torch::tensor(one.state).unsqueeze(0);
    const auto probabilities = network.logits(state).softmax(1).flatten();
    for (std::size_t action = 0; action < 5; ++action)
      EXPECT_NEAR(one.probabilities[action], probabilities[action].item<float>(), 1e-6);
    EXPECT_NEAR(one.value, network.values(state).item<float>(), 1e-5);
  }
}

TEST(PpoDetail1VectorisedArchitecture, AllWorkersTransitionsAreLearnedFromAndTheirOrderDoesNotMatter) {
  cluster::ppo options{.epochs = 1, .minibatches = 1};
  auto rollout = testing::random_rollout(4, 8, 3);
  ppo_learner forwards(shape, options, 1);
  forwards.update(rollout);
  std::ranges::reverse(rollout);
  ppo_learner backwards(shape, options, 1);
  backwards.update(rollout);
  EXPECT_LT(distance(parameters_of(forwards), parameters_of(backwards)), 1e-4);
  rollout.pop_back();
  ppo_learner fewer(shape, options, 1);
  fewer.update(rollout);
  EXPECT_GT(distance(parameters_of(forwards), parameters_of(fewer)), 1e-3);
}

TEST(PpoDetail2OrthogonalInitialisation, WeightsAreOrthogonalWithTheirGainsAndBiasesZero) {
  const actor_critic network(make_network(shape, 5));
  const std::map<std::string, double> gains = {
      {"0", std::sqrt(2.0)}, {"1", std::sqrt(2.0)}, {"policy.2", 0.01}, {"value.2", 1.0}};
  for (const auto& [name, tensor] : network.named_parameters()) {
    if (name.ends_with("bias")) {
      EXPECT_EQ(tensor.abs().max().item<double>(), 0) << name;
      continue;
    }
    const auto layer = name.substr(name.find('.') + 1, 1);
    const double gain = gains.at(layer == "2" ? name.substr(0, name.find('.') + 2) : layer);
    const auto short_side = tensor.size(0) < tensor.size(1) ? tensor.matmul(tensor.t()) : tensor.t().matmul(tensor);
    const auto expected = gain * gain * torch::eye(short_side.size(0));
    EXPECT_LT((short_side - expected).abs().max().item<double>(), 1e-5 * gain) << name;
  }
}

TEST(PpoDetail2OrthogonalInitialisation, DependsOnTheSeedAlone) {
  const auto first = actor_critic(make_network(shape, 5)).parameters();
  EXPECT_EQ(distance(first, actor_critic(make_network(shape, 5)).parameters()), 0);
  EXPECT_GT(distance(first, actor_critic(make_network(shape, 6)).parameters()), 1);
}

/// The gradient is clipped to a norm of 1e-6 here, far below Adam's epsilon of 1e-5, where its first step is
/// lr * g / (|g| + epsilon) ~ lr * g / epsilon: 0.1 long. An epsilon of 1e-8 would make it some 10 long, and a gradient
/// that is not clipped about lr for every parameter, 100 in all.
TEST(PpoDetail3AdamEpsilon, Is1e5) {
  ppo_learner learner(shape, {.learning_rate = 1, .max_gradient_norm = 1e-6, .epochs = 1, .minibatches = 1}, 1);
  const auto before = parameters_of(learner);
  learner.update(testing::random_rollout(4, 16, 1));
  EXPECT_NEAR(distance(before, parameters_of(learner)), 0.1, 0.002);
}

TEST(PpoDetail4LearningRateAnnealing, FallsLinearlyToZero) {
  EXPECT_DOUBLE_EQ(anneal_learning_rate(0.4, 0, 4), 0.4);
  EXPECT_DOUBLE_EQ(anneal_learning_rate(0.4, 1, 4), 0.3);
  EXPECT_DOUBLE_EQ(anneal_learning_rate(0.4, 3, 4), 0.1);
  EXPECT_DOUBLE_EQ(anneal_learning_rate(0.4, 4, 4), 0);
  EXPECT_DOUBLE_EQ(anneal_learning_rate(0.4, 9, 4), 0);
  EXPECT_DOUBLE_EQ(anneal_learning_rate(0.4, 9, 0), 0.4) << "off";
}

TEST(PpoDetail4LearningRateAnnealing, ReachesTheOptimiser) {
  const auto rollout = testing::random_rollout(2, 8, 1);
  ppo_learner annealed(shape, {.annealing_updates = 2}, 1);
  ppo_learner constant(shape, {}, 1);
  annealed.update(rollout);
  constant.update(rollout);
  EXPECT_EQ(distance(parameters_of(annealed), parameters_of(constant)), 0) << "the first update is at the full rate";
  annealed.update(rollout);
  constant.update(rollout);
  EXPECT_GT(distance(parameters_of(annealed), parameters_of(constant)), 0);
  const auto before = parameters_of(annealed);
  annealed.update(rollout);
  EXPECT_EQ(distance(before, parameters_of(annealed)), 0) << "after the last update the rate is 0";
}

/// A policy of version 120 was once taken for one that had done its 100 updates: it learned nothing.
TEST(PpoDetail4LearningRateAnnealing, CountsFromThePolicyThatLearningBeginsWith) {
  const auto rollout = testing::random_rollout(2, 8, 1);
  ppo_learner trained(shape, {}, 1);
  for (int update = 0; update < 3; ++update)
    trained.update(rollout);
  ppo_learner annealed(shape, {.annealing_updates = 2}, 1);
  ASSERT_EQ(annealed.restore(trained.current().parameters), "");
  const auto begun = parameters_of(annealed);
  annealed.update(rollout);
  EXPECT_GT(distance(begun, parameters_of(annealed)), 0);
  ppo_learner resumed(shape, {.annealing_updates = 2}, 1);
  ASSERT_EQ(resumed.restore(annealed.save()), "");
  resumed.update(rollout);
  const auto second = parameters_of(resumed);
  EXPECT_GT(distance(parameters_of(annealed), second), 0);
  resumed.update(rollout);
  EXPECT_EQ(distance(second, parameters_of(resumed)), 0) << "after the last update the rate is 0";
}

TEST(PpoDetail5GeneralisedAdvantageEstimation, MatchesHandComputedValues) {
  const std::vector<float> rewards = {1, 0, 2};
  const std::vector<float> values = {0.5F, 1, -1};
  const auto estimate = estimate_advantages(testing::plain_trajectory(rewards, values, 4), 0.5, 0.5);
  // surprises: 1 + 0.5*1 - 0.5 = 1;  0 + 0.5*(-1) - 1 = -1.5;  2 + 0.5*4 + 1 = 5
  // advantages: 5;  -1.5 + 0.25*5 = -0.25;  1 - 0.25*0.25 = 0.9375
  expect_near(torch::tensor(estimate.advantages), {0.9375, -0.25, 5});
  expect_near(torch::tensor(estimate.returns), {1.4375, 0.75, 4});
}

TEST(PpoDetail5GeneralisedAdvantageEstimation, EqualsTheSumItIsDefinedBy) {
  const auto trajectory = testing::random_rollout(1, 40, 9)[0];
  const auto& steps = trajectory.transitions;
  const double discount = 0.97;
  const double gae_lambda = 0.9;
  const auto estimate = estimate_advantages(trajectory, discount, gae_lambda);
  const auto value = [&](std::size_t i) { return i < steps.size() ? steps[i].value : trajectory.bootstrap_value; };
  for (std::size_t t = 0; t < steps.size(); ++t) {
    double sum = 0;
    for (std::size_t l = 0; t + l < steps.size(); ++l)
      sum += std::pow(discount * gae_lambda, l) * (steps[t + l].reward + discount * value(t + l + 1) - value(t + l));
    EXPECT_NEAR(estimate.advantages[t], sum, 1e-5);
  }
}

TEST(PpoDetail5GeneralisedAdvantageEstimation, AtLambda1IsTheDiscountedReturnAndAt0TheSurprise) {
  const std::vector<float> rewards = {1, 2, 3};
  const std::vector<float> values = {5, 6, 7};
  const auto trajectory = testing::plain_trajectory(rewards, values, 8);
  expect_near(torch::tensor(estimate_advantages(trajectory, 0.5, 1).returns), {3.75, 5.5, 7});
  expect_near(torch::tensor(estimate_advantages(trajectory, 0.5, 0).advantages), {-1, -0.5, 0});
}

TEST(PpoDetail6MinibatchUpdates, EveryRowIsUsedExactlyOnceAnEpochInANewOrder) {
  std::mt19937_64 generator(1);
  std::vector<std::int64_t> last_order;
  for (int epoch = 0; epoch < 5; ++epoch) {
    const auto batches = deal_minibatches(70, 4, generator);
    ASSERT_EQ(batches.size(), 4U);
    std::vector<std::int64_t> order;
    for (const auto& batch : batches) {
      EXPECT_TRUE(batch.size(0) == 17 || batch.size(0) == 18);
      order.insert(order.end(), batch.data_ptr<std::int64_t>(), batch.data_ptr<std::int64_t>() + batch.size(0));
    }
    EXPECT_NE(order, last_order);
    last_order = order;
    std::ranges::sort(order);
    for (std::int64_t i = 0; i < 70; ++i)
      ASSERT_EQ(order[i], i);
  }
}

TEST(PpoDetail6MinibatchUpdates, EveryOrderIsEquallyLikely) {
  std::mt19937_64 generator(2);
  std::map<std::vector<std::int64_t>, int> counts;
  for (int i = 0; i < 6000; ++i) {
    const auto batch = deal_minibatches(3, 1, generator)[0];
    ++counts[{batch.data_ptr<std::int64_t>(), batch.data_ptr<std::int64_t>() + 3}];
  }
  ASSERT_EQ(counts.size(), 6U);
  for (const auto& [order, count] : counts)
    EXPECT_NEAR(count, 1000, 4 * std::sqrt(1000 * 5.0 / 6));
}

TEST(PpoDetail6MinibatchUpdates, AStepFollowsEachMinibatchOfEachEpoch) {
  ppo_learner learner(shape, {.epochs = 3, .minibatches = 4}, 1);
  learner.update(testing::random_rollout(2, 16, 1));
  storage::tensor_file file;
  ASSERT_EQ(storage::decode(learner.save(), file), "");
  torch::Tensor steps;
  ASSERT_EQ(read_tensor(file, "learner.policy.0.weight.step", torch::zeros({1}, torch::kInt64), steps), "");
  EXPECT_EQ(steps.item<std::int64_t>(), 12);
}

TEST(PpoDetail7NormalisationOfAdvantages, GivesMean0AndDeviation1) {
  const auto normal = normalise_advantages(row({1, 2, 3, 6}));
  // mean 3, sum of squares 4+1+0+9 = 14, deviation sqrt(14/3) = 2.1602469
  expect_near(normal, {-0.9258201, -0.4629100, 0, 1.3887301});
  expect_near(normalise_advantages(row({3})), {3});
  expect_near(normalise_advantages(row({2, 2})), {0, 0});
}

TEST(PpoDetail7NormalisationOfAdvantages, DoesNotScaleUpWhatHardlyDiffers) {
  expect_near(normalise_advantages(row({-0.01F, 0, 0.01F})), {-0.1, 0, 0.1}); // not -1, 0, 1
  expect_near(normalise_advantages(row({4.99F, 5.01F})), {-0.1, 0.1}, 1e-5);
}

TEST(PpoDetail7NormalisationOfAdvantages, TakesTheRewardsLevelAndScaleOutOfAnUpdate) {
  auto rollout = testing::random_rollout(2, 16, 1);
  for (auto& trajectory : rollout)
    for (auto& step : trajectory.transitions) {
      step.reward = 100 + 50 * step.reward;
      step.value = 0;
    }
  ppo_learner learner(shape, {.discount = 0, .epochs = 1}, 1);
  // Advantages as they are would make it about -100.
  EXPECT_NEAR(learner.update(rollout).policy_loss, 0, 0.01);
}

} // namespace
} // namespace dynamix::policy
