#include "policy/ppo_simple.hpp"
#include "samples.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace dynamix::policy {
namespace {

using ::testing::ElementsAre;

TEST(PpoSimple, CumulatesDiscountedRewardsToTheEndOfEachWorkersPart) {
  const std::vector<float> values(3);
  const std::vector<messages::trajectory> rollout = {
      testing::plain_trajectory(std::vector<float>{1, 2, 4}, values, 100, 0),
      testing::plain_trajectory(std::vector<float>{8, 16}, values, 100, 1),
  };
  EXPECT_THAT(cumulative_rewards(rollout, 0.5), ElementsAre(3, 4, 4, 16, 16));
}

TEST(PpoSimple, CumulatesAcrossAChangeOfTheVersion) {
  const std::vector<float> values(3);
  const std::vector<messages::trajectory> rollout = {
      testing::plain_trajectory(std::vector<float>{1, 2}, values, 0, 3),
      testing::plain_trajectory(std::vector<float>{4}, values, 0, 3),
  };
  EXPECT_THAT(cumulative_rewards(rollout, 0.5), ElementsAre(3, 4, 4));
}

TEST(PpoSimple, FollowsTheRewardWeightedLikelihoodWithoutClipBaselineOrValueFunction) {
  const policy_shape shape{.kind = "ppo-simple", .actions = {-100, -25, 0, 25, 100}, .hidden = 8};
  const cluster::ppo options{.learning_rate = 0.01, .max_gradient_norm = 1000};
  const auto rollout = testing::random_rollout(2, 8, 4);
  ppo_simple_learner learner(shape, options, 1);
  const auto version = learner.update(rollout);

  // The same step, written out: -mean(pi / pi_old * R), one step of Adam.
  const actor_critic network(make_network(shape, 1));
  const auto rewards = cumulative_rewards(rollout, options.discount);
  auto loss = torch::zeros({});
  std::size_t count = 0;
  for (const auto& trajectory : rollout)
    for (const auto& step : trajectory.transitions) {
      const auto probabilities = network.logits(torch::tensor(step.state).unsqueeze(0)).softmax(1);
      loss = loss - probabilities[0][step.action] / std::exp(step.log_probability) * rewards[count++];
    }
  loss = loss / static_cast<double>(count);
  torch::optim::Adam adam(network.parameters(), torch::optim::AdamOptions(0.01).eps(1e-5));
  loss.backward();
  adam.step();

  EXPECT_NEAR(version.policy_loss, loss.item<double>(), 1e-5);
  auto read = make_network(shape, 2);
  std::uint64_t number = 0;
  ASSERT_EQ(from_bytes(version.parameters, shape, read, number), "");
  const actor_critic learned(read);
  const auto expected = network.named_parameters();
  const auto fresh = actor_critic(make_network(shape, 1)).parameters();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_LT((learned.parameters()[i] - expected[i].second).abs().max().item<double>(), 1e-4) << expected[i].first;
    EXPECT_EQ(torch::equal(learned.parameters()[i], fresh[i]), expected[i].first.starts_with("value."))
        << expected[i].first;
  }
}

} // namespace
} // namespace dynamix::policy
