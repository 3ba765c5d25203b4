/// The 13 core implementation details of "The 37 Implementation Details of Proximal Policy Optimization" (Huang et al.,
/// ICLR blog track 2022): one test a detail at least, named after it. Here how a minibatch moves the parameters,
/// details 8 to 13.

#include "parameters.hpp"
#include "policy/ppo.hpp"
#include "samples.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace dynamix::policy {
namespace {

using testing::distance;
using testing::expect_near;
using testing::parameters_of;
using testing::row;
using testing::shape;

/// Rows with probability ratios 1.5, 0.5, 1.5, 0.5 and 1.1 under a clip of 0.2.
const auto ratio_rows = row({std::log(1.5F), std::log(0.5F), std::log(1.5F), std::log(0.5F), std::log(1.1F)});

ppo_loss loss_of(const torch::Tensor& log_probabilities, const torch::Tensor& advantages, const torch::Tensor& values,
                 const torch::Tensor& old_values, const torch::Tensor& returns, const cluster::ppo& options = {}) {
  return compute_loss({.log_probabilities = log_probabilities,
                       .entropies = torch::full_like(log_probabilities, 0.75),
                       .values = values},
                      {.log_probabilities = torch::zeros_like(log_probabilities),
                       .values = old_values,
                       .advantages = advantages,
                       .returns = returns},
                      options);
}

TEST(PpoDetail8ClippedSurrogateObjective, MatchesHandComputedValues) {
  const auto zeros = torch::zeros({5});
  const auto loss = loss_of(ratio_rows, row({2, 2, -2, -2, 1}), zeros, zeros, zeros);
  // min(3, 2.4) = 2.4; min(1, 1.6) = 1; min(-3, -2.4) = -3; min(-1, -1.6) = -1.6; 1.1: sum -0.1, mean -0.02
  EXPECT_NEAR(loss.policy.item<double>(), 0.02, 1e-6);
}

TEST(PpoDetail8ClippedSurrogateObjective, GivesNoGradientBeyondTheClipInTheAdvantagesDirection) {
  const auto zeros = torch::zeros({5});
  auto log_probabilities = ratio_rows.clone().set_requires_grad(true);
  loss_of(log_probabilities, row({2, 2, -2, -2, 1}), zeros, zeros, zeros).policy.backward();
  // -ratio * advantage / 5 where the ratio is not clipped
  expect_near(log_probabilities.grad(), {0, -0.2, 0.6, 0, -0.22});
}

TEST(PpoDetail9ValueLossClipping, MatchesHandComputedValues) {
  const auto zeros = torch::zeros({3});
  const auto now = row({1, 0.1F, -1});
  const auto then = row({0, 0, 0});
  const auto returns = row({1, 1, 1});
  const auto loss = loss_of(zeros, zeros, now, then, returns);
  // clipped values 0.2, 0.1, -0.2; errors 0, 0.81, 4; clipped errors 0.64, 0.81, 1.44; the larger: 0.64, 0.81, 4
  EXPECT_NEAR(loss.value.item<double>(), 0.5 * (0.64 + 0.81 + 4) / 3, 1e-6);
}

TEST(PpoDetail10OverallLossAndEntropyBonus, WeighsTheThreeTerms) {
  const auto log_probabilities = torch::zeros({2});
  const auto loss = loss_of(log_probabilities, row({1, 3}), row({0, 0}), row({0, 0}), row({2, 2}),
                            {.entropy_coefficient = 0.1, .value_coefficient = 0.25});
  EXPECT_NEAR(loss.policy.item<double>(), -2, 1e-6);
  EXPECT_NEAR(loss.value.item<double>(), 2, 1e-6);
  EXPECT_NEAR(loss.entropy.item<double>(), 0.75, 1e-6);
  EXPECT_NEAR(loss.total.item<double>(), -2 - 0.1 * 0.75 + 0.25 * 2, 1e-6);
}

TEST(PpoDetail10OverallLossAndEntropyBonus, TheEntropyIsThatOfTheActionsDistribution) {
  const actor_critic network(make_network({.kind = "ppo-add", .actions = {-1, 0}, .hidden = 4}, 1));
  const torch::NoGradGuard no_gradient;
  for (auto& [name, tensor] : network.named_parameters())
    if (name == "policy.2.weight")
      torch::Tensor(tensor).zero_();
    else if (name == "policy.2.bias")
      torch::Tensor(tensor).copy_(row({std::log(0.25F), std::log(0.75F)}));
  const auto now = predict(network, torch::zeros({1, network.state_size()}), torch::tensor({std::int64_t{1}}));
  EXPECT_NEAR(now.entropies.item<double>(), 0.5623351, 1e-6); // -(0.25 ln 0.25 + 0.75 ln 0.75)
  EXPECT_NEAR(now.log_probabilities.item<double>(), std::log(0.75), 1e-6);
}

TEST(PpoDetail11GlobalGradientClipping, ScalesAllGradientsByOneFactor) {
  // Clipped to any norm far below epsilon, Adam's first step is proportional to the gradient, so steps after clipping
  // to 1e-7 and 2e-7 differ by a factor of 2 for every parameter together. Clipping each tensor alone would make each
  // tensor's step equally long.
  const auto rollout = testing::random_rollout(4, 16, 1);
  const auto steps_at = [&rollout](double norm) {
    ppo_learner learner(shape, {.learning_rate = 1, .max_gradient_norm = norm, .epochs = 1, .minibatches = 1}, 1);
    const auto before = parameters_of(learner);
    learner.update(rollout);
    auto after = parameters_of(learner);
    for (std::size_t i = 0; i < after.size(); ++i)
      after[i] = after[i] - before[i];
    return after;
  };
  const std::vector<torch::Tensor> nothing(12, torch::zeros({}));
  const auto large = steps_at(2e-6);
  EXPECT_NEAR(distance(steps_at(1e-6), nothing) / distance(large, nothing), 0.5, 0.02);
  const auto length = [](const torch::Tensor& step) { return step.norm().item<double>(); };
  const auto [shortest, longest] = std::ranges::minmax(large, {}, length);
  EXPECT_GT(length(longest), 3 * length(shortest));
}

TEST(PpoDetail11GlobalGradientClipping, LeavesSmallGradientsAlone) {
  const auto rollout = testing::random_rollout(2, 8, 1);
  ppo_learner clipped(shape, {.max_gradient_norm = 500, .epochs = 1, .minibatches = 1}, 1);
  ppo_learner unclipped(shape, {.max_gradient_norm = 1000, .epochs = 1, .minibatches = 1}, 1);
  clipped.update(rollout);
  unclipped.update(rollout);
  EXPECT_EQ(distance(parameters_of(clipped), parameters_of(unclipped)), 0);
}

TEST(PpoDetail12DebugVariables, MatchHandComputedValues) {
  const auto zeros = torch::zeros({5});
  const auto loss = loss_of(ratio_rows, zeros, zeros, zeros, zeros);
  // ratio - 1 - log(ratio): 0.0945349 (1.5), 0.1931472 (0.5), again both, 0.0046898 (1.1)
  EXPECT_NEAR(loss.approximate_kl.item<double>(), (2 * 0.0945349 + 2 * 0.1931472 + 0.0046898) / 5, 1e-6);
  EXPECT_NEAR(loss.clip_fraction.item<double>(), 0.8, 1e-6);
}

TEST(PpoDetail12DebugVariables, AreToldWithEveryVersion) {
  ppo_learner learner(shape, {.epochs = 1, .minibatches = 1}, 1);
  const auto version = learner.update(testing::random_rollout(4, 16, 1));
  EXPECT_EQ(version.version, 1U);
  EXPECT_NEAR(version.policy_loss, 0, 1e-3) << "the mean of normalised advantages";
  EXPECT_GT(version.value_loss, 0);
  EXPECT_NEAR(version.entropy, std::log(5), 1e-3) << "a fresh policy is almost uniform";
  EXPECT_LT(version.approximate_kl, 1e-3);
  EXPECT_EQ(version.clip_fraction, 0);
  cluster::ppo eager{.learning_rate = 0.05};
  ppo_learner other(shape, eager, 1);
  const auto far = other.update(testing::random_rollout(4, 16, 1));
  EXPECT_GT(far.approximate_kl, 0.01);
  EXPECT_GT(far.clip_fraction, 0);
  EXPECT_EQ(other.current().clip_fraction, far.clip_fraction);
}

TEST(PpoDetail13SeparateNetworks, PolicyAndValueShareNoParameter) {
  const actor_critic network(make_network(shape, 1));
  network.values(torch::ones({3, network.state_size()})).sum().backward();
  for (const auto& [name, tensor] : network.named_parameters())
    EXPECT_EQ(tensor.grad().defined(), name.starts_with("value.")) << name;
  const actor_critic other(make_network(shape, 1));
  other.logits(torch::ones({3, other.state_size()})).sum().backward();
  for (const auto& [name, tensor] : other.named_parameters())
    EXPECT_EQ(tensor.grad().defined(), name.starts_with("policy.")) << name;
}

} // namespace
} // namespace dynamix::policy
