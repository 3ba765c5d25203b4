#include "trainer/checkpoint.hpp"
#include "trainer/optimizer.hpp"
#include "trainer/tensor_records.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dynamix::trainer {
namespace {

using cluster::optimizer_kind;
using testing::HasSubstr;

cluster::training with(optimizer_kind kind, double weight_decay = 0.01) {
  cluster::training training;
  training.optimizer = kind;
  training.learning_rate = 0.1;
  training.weight_decay = weight_decay;
  return training;
}

/// Two parameters and the optimiser over them.
struct setup {
  explicit setup(const cluster::training& options)
      : parameters{torch::linspace(-1, 1, 6).view({2, 3}).requires_grad_(), torch::ones({4}).requires_grad_()},
        steps(options, parameters) {}

  /// One step on gradients that follow from `number`.
  void step(int number) {
    steps.set_learning_rate(0.1 / number);
    for (auto& parameter : parameters) {
      parameter.mutable_grad().reset();
      (parameter * (parameter + number)).sum().backward();
    }
    steps.step();
  }

  std::vector<torch::Tensor> parameters;
  optimizer steps;
};

TEST(Optimizer, TakesTheStepsOfTheFormulas) {
  // One parameter p = 1 with gradient 1 in both steps and the learning rate 0.1; no weight decay.
  const auto run = [](optimizer_kind kind) {
    auto parameter = torch::ones({1}, torch::kFloat64).requires_grad_();
    optimizer steps(with(kind, 0), {parameter});
    for (int i = 0; i < 2; ++i) {
      parameter.mutable_grad().reset();
      parameter.sum().backward();
      steps.step();
    }
    return parameter.item<double>();
  };
  EXPECT_NEAR(run(optimizer_kind::sgd), 1 - 0.1 - 0.1 * 1.9, 1e-12);
  // Adam's corrected moments are both 1, so each step is the learning rate.
  EXPECT_NEAR(run(optimizer_kind::adam), 1 - 0.2, 1e-7);
  EXPECT_NEAR(run(optimizer_kind::adamw), 1 - 0.2, 1e-7);
}

TEST(Optimizer, DecaysWeightsAsEachKindDoes) {
  // No gradient, p = 1, weight decay 0.5, learning rate 0.1: SGD takes the decay as gradient, Adam normalises it to 1,
  // AdamW shrinks the parameter itself.
  const auto run = [](optimizer_kind kind) {
    auto parameter = torch::ones({1}, torch::kFloat64).requires_grad_();
    optimizer steps(with(kind, 0.5), {parameter});
    (parameter * 0).sum().backward();
    steps.step();
    return parameter.item<double>();
  };
  EXPECT_NEAR(run(optimizer_kind::sgd), 0.95, 1e-12);
  EXPECT_NEAR(run(optimizer_kind::adam), 0.9, 1e-7);
  EXPECT_NEAR(run(optimizer_kind::adamw), 0.95, 1e-7);
}

TEST(Optimizer, GoesOnFromItsStateBitForBitThroughACheckpoint) {
  for (const auto kind : {optimizer_kind::sgd, optimizer_kind::adam, optimizer_kind::adamw}) {
    setup whole(with(kind));
    for (int number = 1; number <= 5; ++number)
      whole.step(number);

    checkpoint saved;
    saved.epoch_samples = 1;
    saved.batches = {1};
    saved.optimizer = whole.steps.state();
    checkpoint read;
    ASSERT_EQ(decode(encode(saved), read), "");

    setup resumed(with(kind));
    {
      const torch::NoGradGuard no_gradients;
      for (std::size_t i = 0; i < whole.parameters.size(); ++i)
        resumed.parameters[i].copy_(whole.parameters[i]);
    }
    ASSERT_EQ(resumed.steps.restore(read.optimizer), "");
    for (int number = 6; number <= 10; ++number) {
      whole.step(number);
      resumed.step(number);
    }
    for (std::size_t i = 0; i < whole.parameters.size(); ++i)
      EXPECT_TRUE(torch::equal(whole.parameters[i], resumed.parameters[i]));
  }
}

TEST(Optimizer, HasNoStateBeforeItsFirstStepAndCanReturnThere) {
  setup fresh(with(optimizer_kind::adam));
  EXPECT_TRUE(fresh.steps.state().empty());
  fresh.step(1);
  EXPECT_EQ(fresh.steps.state().size(), 6U);
  EXPECT_EQ(fresh.steps.restore({}), "");
  EXPECT_TRUE(fresh.steps.state().empty());
}

TEST(Optimizer, RefusesAStateThatDoesNotFitAndStaysAsItWas) {
  setup adam(with(optimizer_kind::adam));
  setup sgd(with(optimizer_kind::sgd));
  adam.step(1);
  sgd.step(1);
  EXPECT_THAT(adam.steps.restore(sgd.steps.state()), HasSubstr("has 2 tensors for the optimiser, expected 6"));
  EXPECT_THAT(sgd.steps.restore(adam.steps.state()), HasSubstr("expected 2"));
  const auto good = sgd.steps.state();
  auto strange = good;
  strange[1].name = "momentum.7";
  EXPECT_THAT(sgd.steps.restore(strange), HasSubstr("no tensor \"momentum.1\""));
  auto misshapen = good;
  misshapen[1] = to_record("momentum.1", torch::zeros({5}));
  EXPECT_THAT(sgd.steps.restore(misshapen), HasSubstr("has the shape [5], expected [4]"));
  auto negative = adam.steps.state();
  for (auto& record : negative)
    if (record.name == "step.0")
      record = to_record("step.0", torch::tensor(-1, torch::kInt64));
  EXPECT_THAT(adam.steps.restore(negative), HasSubstr("\"step.0\" is -1"));
  EXPECT_EQ(sgd.steps.state().at(1).data, good[1].data);
}

} // namespace
} // namespace dynamix::trainer
