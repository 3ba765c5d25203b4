/// Averaged weights, and training that ends where nothing gets better.

#include "tests/temporary_directory.hpp"
#include "tiny_training.hpp"
#include "trainer/weight_average.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace dynamix::trainer {
namespace {

using testing::HasSubstr;

TEST(WeightAverage, IsThePlainMeanAtFirstAndForgetsBySamplesThen) {
  torch::manual_seed(4);
  torch::nn::Sequential model(torch::nn::Linear(3, 2));
  weight_average average(*model, 1000);
  auto weight = model->named_parameters()["0.weight"];
  auto mean = torch::zeros({2, 3}, torch::kFloat64);
  auto slow = mean;
  std::uint64_t done = 0;
  const torch::NoGradGuard no_gradients;
  for (const std::uint64_t samples : {10, 90, 200, 100, 600, 500, 64}) {
    weight.copy_(torch::randn({2, 3}));
    average.follow(samples, done);
    done += samples;
    mean = mean + weight.to(torch::kFloat64) * static_cast<double>(samples);
    const double kept = std::exp(-static_cast<double>(samples) / 1000);
    slow = done <= 1000 ? mean / static_cast<double>(done) : slow * kept + weight.to(torch::kFloat64) * (1 - kept);
    const auto held = weight.clone();
    {
      const averaged_weights shown(average);
      EXPECT_TRUE(torch::allclose(weight.to(torch::kFloat64), slow, 1e-5, 1e-6)) << "after " << done;
    }
    EXPECT_TRUE(torch::equal(weight, held)) << "put back";
  }
}

TEST(WeightAverage, IsRestoredOrBeginsWithWhatTheModelHolds) {
  torch::nn::Sequential model(torch::nn::Linear(3, 2));
  weight_average average(*model, 100);
  auto weight = model->named_parameters()["0.weight"];
  const auto first = weight.clone();
  const torch::NoGradGuard no_gradients;
  average.follow(10, 0);
  weight.mul_(3);
  average.follow(10, 10);
  const auto state = average.state();
  ASSERT_EQ(state.size(), 2U);
  EXPECT_EQ(state[0].name, "0.weight");
  EXPECT_TRUE(torch::allclose(to_tensor(state[0]), first * 2));
  auto cut = state;
  cut.pop_back();
  EXPECT_THAT(average.restore(cut), HasSubstr("it has 1 averaged weights, expected 2"));
  cut = state;
  cut[1].name = "0.other";
  EXPECT_THAT(average.restore(cut), HasSubstr("it has no tensor \"0.bias\""));
  ASSERT_EQ(average.restore({}), "");
  EXPECT_TRUE(torch::equal(to_tensor(average.state()[0]), weight));
  ASSERT_EQ(average.restore(state), "");
  EXPECT_TRUE(torch::equal(to_tensor(average.state()[0]), to_tensor(state[0])));
  weight_average none(*model, 0);
  none.follow(10, 0);
  EXPECT_TRUE(none.state().empty());
  EXPECT_EQ(none.restore(state), "") << "a run that keeps none goes on without";
}

rank_options long_training() {
  rank_options options;
  options.loop.training.epochs = 3;
  options.loop.training.evaluate_every_epochs = 0.25;
  return options;
}

TEST(AveragedWeights, AreEvaluatedAndLeaveTrainingAsItIs) {
  const auto train = tiny_dataset(600, 1);
  const auto test = tiny_dataset(60, 2);
  const auto plain = long_training();
  auto averaged = plain;
  averaged.loop.training.ema_samples = 300;
  const auto without = train_ranks({plain, plain}, train, test);
  const auto with = train_ranks({averaged, averaged}, train, test);
  EXPECT_TRUE(same_bits(with[0], without[0]));
  EXPECT_TRUE(same_bits(with[0], with[1]));
  ASSERT_EQ(with[0].evaluations.size(), without[0].evaluations.size());
  EXPECT_GT(with[0].evaluations[1].test_loss, without[0].evaluations[1].test_loss) << "they follow behind";
}

TEST(Patience, EndsTrainingWhereNothingGetsBetter) {
  const auto train = tiny_dataset(600, 1);
  const auto test = tiny_dataset(60, 2);
  auto options = long_training();
  options.loop.training.epochs = 50;
  options.loop.training.patience = 4;
  const auto results = train_ranks({options, options}, train, test);
  EXPECT_EQ(results[0].end.how, ending::completed);
  EXPECT_EQ(results[0].end.reason, "no better accuracy");
  EXPECT_EQ(results[1].end.reason, "no better accuracy");
  EXPECT_EQ(results[1].steps, results[0].steps);
  EXPECT_LT(results[0].samples, 30'000U);
  const auto& evaluations = results[0].evaluations;
  ASSERT_GT(evaluations.size(), 4U);
  double best = 0;
  std::size_t since = 0;
  for (const auto& each : evaluations) {
    EXPECT_LT(since, 4U) << "and not later";
    since = each.test_accuracy > best ? 0 : since + 1;
    best = std::max(best, each.test_accuracy);
  }
  EXPECT_EQ(since, 4U);
}

TEST(ResumedTraining, WithAveragesPatienceAndThreadsThatLoadGivesTheSameBits) {
  const temporary_directory directory;
  const auto train = tiny_dataset(600, 1);
  const auto test = tiny_dataset(60, 2);
  auto whole = long_training();
  whole.loop.checkpoint_directory = directory.path();
  whole.loop.keep_checkpoints = 100;
  whole.loop.training.epochs = 20;
  whole.loop.training.checkpoint_every_epochs = 0.3;
  whole.loop.training.augmentation = cluster::augmentation_kind::crop_flip;
  whole.loop.training.ema_samples = 500;
  whole.loop.training.patience = 5;
  whole.loop.training.loader_threads = 2;
  const auto uninterrupted = train_ranks({whole, whole}, train, test);
  EXPECT_EQ(uninterrupted[0].end.reason, "no better accuracy");
  ASSERT_GE(uninterrupted[0].checkpoints.size(), 4U);
  auto plain = whole;
  plain.loop.checkpoint_directory.clear();
  plain.loop.training.loader_threads = 0;
  EXPECT_TRUE(same_bits(train_ranks({plain, plain}, train, test)[0], uninterrupted[0])) << "threads change nothing";
  std::size_t resumed = 0;
  for (const auto& [step, path] : uninterrupted[0].checkpoints) {
    if (resumed++ % 3 != 0)
      continue;
    auto rest = whole;
    rest.loop.checkpoint_directory.clear();
    rest.resume_from = path;
    const auto result = train_ranks({rest, rest}, train, test)[0];
    EXPECT_TRUE(same_bits(result, uninterrupted[0])) << "from step " << step;
    EXPECT_EQ(result.steps, uninterrupted[0].steps);
    EXPECT_EQ(result.evaluations.back().test_loss, uninterrupted[0].evaluations.back().test_loss);
  }
}

TEST(ResumedTraining, IsNotEndedSoonerByTheEvaluationOfItsStop) {
  const auto train = tiny_dataset(600, 1);
  const auto test = tiny_dataset(60, 2);
  auto whole = long_training();
  whole.loop.training.epochs = 20;
  whole.loop.training.patience = 3;
  const auto uninterrupted = train_ranks({whole, whole}, train, test)[0];
  EXPECT_EQ(uninterrupted.end.reason, "no better accuracy");
  for (const std::size_t windows : {2U, 5U, 7U}) {
    const temporary_directory directory;
    auto begun = whole;
    begun.loop.checkpoint_directory = directory.path();
    begun.stop_after_windows = windows;
    const auto stopped = train_ranks({begun, begun}, train, test)[0];
    ASSERT_EQ(stopped.end.how, ending::stopped);
    auto rest = whole;
    rest.resume_from = stopped.checkpoints.rbegin()->second;
    const auto result = train_ranks({rest, rest}, train, test)[0];
    EXPECT_EQ(result.end.reason, "no better accuracy");
    EXPECT_EQ(result.steps, uninterrupted.steps) << "stopped after window " << windows;
    EXPECT_TRUE(same_bits(result, uninterrupted));
  }
}

} // namespace
} // namespace dynamix::trainer
