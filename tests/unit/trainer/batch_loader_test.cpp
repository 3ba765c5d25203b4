#include "storage/splitmix64.hpp"
#include "trainer/batch_loader.hpp"
#include "trainer/evaluation.hpp"
#include "trainer/loss.hpp"
#include "trainer/model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace dynamix::trainer {
namespace {

/// `count` images of 2 channels of 4x4 pixels with counting bytes.
dataset counting_images(std::uint32_t count) {
  dataset data{{.channels = 2, .height = 4, .width = 4, .classes = 10}, {}, {}};
  for (std::uint32_t i = 0; i < count * data.image_bytes(); ++i)
    data.images.push_back(static_cast<std::uint8_t>(i * 7));
  for (std::uint32_t i = 0; i < count; ++i)
    data.labels.push_back(static_cast<std::uint8_t>(i % 10));
  return data;
}

TEST(BatchLoader, GathersAndNormalisesLikeTheSlowWay) {
  const auto data = counting_images(20);
  const channel_statistics statistics{{0.25F, 0.5F}, {0.5F, 2.0F}};
  batch_loader loader(data, statistics);
  const std::array<std::uint32_t, 3> samples{19, 0, 7};
  const auto batch = loader.load(samples);
  const auto all = torch::from_blob(const_cast<std::uint8_t*>(data.images.data()), {20, 2, 4, 4}, torch::kUInt8);
  const auto picked = all.index_select(0, torch::tensor({19, 0, 7})).to(torch::kFloat32) / 255;
  const auto mean = torch::tensor({0.25F, 0.5F}).view({1, 2, 1, 1});
  const auto deviation = torch::tensor({0.5F, 2.0F}).view({1, 2, 1, 1});
  EXPECT_TRUE(torch::allclose(batch.inputs, (picked - mean) / deviation, 1e-6, 1e-6));
  EXPECT_TRUE(torch::equal(batch.labels, torch::tensor({9, 0, 7}, torch::kInt64)));
}

TEST(BatchLoader, MakesTheTrainingSetZeroMeanAndUnitDeviation) {
  const auto data = counting_images(64);
  batch_loader loader(data, measure_channels(data));
  const auto images = loader.load(index_range{0, 64}).inputs;
  EXPECT_TRUE(torch::allclose(images.mean({0, 2, 3}), torch::zeros(2), 0, 1e-5));
  EXPECT_TRUE(torch::allclose(images.std({0, 2, 3}, false), torch::ones(2), 1e-5));
}

TEST(BatchLoader, GivesAnEmptyBatchAndOneThatGrows) {
  const auto data = counting_images(20);
  batch_loader loader(data, measure_channels(data));
  const auto empty = loader.load(std::span<const std::uint32_t>{});
  EXPECT_EQ(empty.inputs.sizes(), (std::vector<std::int64_t>{0, 2, 4, 4}));
  EXPECT_EQ(empty.labels.sizes(), std::vector<std::int64_t>{0});
  const auto small = loader.load(index_range{3, 2}).inputs.clone();
  const auto large = loader.load(index_range{0, 20}).inputs;
  EXPECT_TRUE(torch::equal(large.narrow(0, 3, 2), small));
  EXPECT_TRUE(torch::equal(loader.load(index_range{3, 2}).inputs, small)) << "a smaller batch shares the buffer";
}

TEST(BatchLoader, PreparesWhatIsExpectedAndGivesTheSame) {
  const auto images = counting_images(50);
  dataset text;
  text.context = 3;
  for (std::uint16_t token = 0; token < 200; ++token)
    text.text.tokens.push_back(token);
  for (std::uint32_t start = 0; start < 50; ++start)
    text.text.starts.push_back(start * 3);
  dataset choices;
  const interactions_shape shape{.users = 40, .items = 60, .train = 50, .test = 10};
  choices.choices = std::make_shared<interactions>(shape, 0, 50);
  storage::splitmix64 random(1);
  for (const auto* data : std::initializer_list<const dataset*>{&images, &text, &choices}) {
    batch_loader plain(*data, measure_channels(*data));
    batch_loader prepared(*data, measure_channels(*data), torch::kCPU, 3);
    std::vector<std::uint32_t> expected;
    std::uint64_t met = 0;
    for (std::uint64_t step = 0; step < 60; ++step) {
      auto samples = expected;
      if (step % 4 == 0 || samples.empty()) { // something else, or another epoch
        samples.resize(1 + random.below(20));
        std::ranges::generate(samples, [&] { return random.below(50); });
      }
      if (step % 10 == 5)
        for (auto* loader : {&plain, &prepared})
          loader->augment(7, step);
      const bool meets = samples == expected && !expected.empty() && step % 10 != 5;
      const auto batch = prepared.load(samples);
      met += meets ? 1 : 0;
      expected.resize(random.below(12));
      std::ranges::generate(expected, [&] { return random.below(50); });
      prepared.expect(expected); // must not touch the batch
      const auto same = plain.load(samples);
      EXPECT_TRUE(torch::equal(batch.inputs, same.inputs)) << step;
      EXPECT_TRUE(torch::equal(batch.labels, same.labels)) << step;
    }
    EXPECT_EQ(prepared.expected_batches(), met);
    EXPECT_GT(met, 20U);
    EXPECT_EQ(plain.expected_batches(), 0U);
  }
}

TEST(Evaluation, SumsOverShardsToTheWhole) {
  dataset data{shape_of(cluster::dataset_kind::fashion_mnist), {}, {}};
  for (std::uint32_t i = 0; i < 101; ++i) {
    data.labels.push_back(static_cast<std::uint8_t>(i % 10));
    data.images.insert(data.images.end(), data.image_bytes(), static_cast<std::uint8_t>(i * 2));
  }
  batch_loader loader(data, measure_channels(data));
  auto model = build_model({.images = data, .seed = 3});
  model->train();
  const auto whole = evaluate(model, loader, {0, 101}, 101);
  evaluation_sums sums;
  for (const auto range : client::split_range({0, 101}, std::array<std::uint32_t, 3>{64, 32, 200})) {
    const auto part = evaluate(model, loader, range, 16);
    sums.loss += part.loss;
    sums.correct += part.correct;
    sums.count += part.count;
  }
  EXPECT_TRUE(model->is_training());
  EXPECT_EQ(sums.count, 101U);
  EXPECT_EQ(sums.correct, whole.correct);
  EXPECT_NEAR(sums.loss, whole.loss, 1e-4 * whole.loss);

  evaluation_sums every_third;
  for (std::uint64_t i = 0; i < 101; i += 3) {
    const auto one = evaluate(model, loader, {i, 1});
    every_third.loss += one.loss;
    every_third.correct += one.correct;
  }
  const auto third = evaluate(model, loader, {0, 34}, 16, {}, 3);
  EXPECT_EQ(third.count, 34U);
  EXPECT_EQ(third.correct, every_third.correct);
  EXPECT_NEAR(third.loss, every_third.loss, 1e-4 * third.loss);

  // Against the definitions, one sample at a time.
  const torch::NoGradGuard no_gradients;
  double loss = 0;
  std::uint64_t correct = 0;
  for (std::uint64_t i = 0; i < 101; ++i) {
    const auto probabilities = torch::softmax(model->forward(loader.load(index_range{i, 1}).inputs), 1)[0];
    loss -= std::log(probabilities[data.labels[i]].item<double>());
    correct += probabilities.argmax().item<std::int64_t>() == data.labels[i] ? 1 : 0;
  }
  EXPECT_EQ(whole.correct, correct);
  EXPECT_NEAR(whole.loss, loss, 1e-4 * loss);
}

TEST(Evaluation, OfNothingIsNothing) {
  const auto data = counting_images(1);
  batch_loader loader(data, measure_channels(data));
  torch::nn::Sequential model{torch::nn::Flatten(), torch::nn::Linear(32, 10)};
  const auto sums = evaluate(model, loader, {0, 0});
  EXPECT_EQ(sums.count, 0U);
  EXPECT_EQ(sums.loss, 0);
  EXPECT_EQ(count_correct(torch::zeros({0, 10}), torch::zeros({0}, torch::kInt64)), 0U);
}

} // namespace
} // namespace dynamix::trainer
