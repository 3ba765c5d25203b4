#include "tests/unit/seeds.hpp"
#include "trainer/loss.hpp"
#include "trainer/model.hpp"
#include "trainer/tensor_records.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace dynamix::trainer {
namespace {

using cluster::dataset_kind;
using cluster::model_kind;
using cluster::normalization_kind;

std::int64_t parameter_count(const torch::nn::Sequential& model) {
  std::int64_t count = 0;
  for (const auto& parameter : model->parameters())
    count += parameter.numel();
  return count;
}

torch::Tensor images_of(const model_options& options, std::int64_t count) {
  return torch::randn({count, options.images.channels, options.images.height, options.images.width});
}

TEST(Model, GivesALogitForEachClassAndAGradientForEachParameter) {
  for (const auto normalization : {normalization_kind::none, normalization_kind::group}) {
    for (const auto& options :
         {model_options{model_kind::lenet, 1, normalization, shape_of(dataset_kind::fashion_mnist), 1},
          model_options{model_kind::lenet, 1, normalization, shape_of(dataset_kind::cifar100), 1},
          model_options{model_kind::vgg11, 0.125, normalization, shape_of(dataset_kind::cifar10), 1},
          model_options{model_kind::vgg11, 0.0625, normalization, {3, 48, 40, 7}, 1},
          model_options{model_kind::vgg19, 0.0625, normalization, shape_of(dataset_kind::fashion_mnist_32), 1},
          model_options{model_kind::resnet18, 0.125, normalization, shape_of(dataset_kind::fashion_mnist), 1},
          model_options{model_kind::resnet50, 0.0625, normalization, {3, 24, 40, 7}, 1}}) {
      auto model = build_model(options);
      const auto logits = model->forward(images_of(options, 3));
      ASSERT_EQ(logits.sizes(), (std::vector<std::int64_t>{3, options.images.classes}));
      logits.square().sum().backward();
      for (const auto& parameter : model->named_parameters()) {
        ASSERT_TRUE(parameter.value().grad().defined()) << parameter.key();
        EXPECT_GT(parameter.value().grad().abs().max().item<float>(), 0) << parameter.key();
      }
    }
  }
}

TEST(Model, HasThePublishedSizes) {
  // LeNet-5 on one channel: 6*(25+1) + 16*(150+1) + 120*(400+1) + 84*(120+1) + 10*(84+1).
  const auto lenet = build_model({.images = shape_of(dataset_kind::fashion_mnist)});
  EXPECT_EQ(parameter_count(lenet), 61706);
  // VGG11 on three channels, whose convolutions have 9,220,480 parameters, and one linear layer of 512*10 + 10.
  const auto vgg11 = build_model({.kind = model_kind::vgg11, .images = shape_of(dataset_kind::cifar10)});
  EXPECT_EQ(parameter_count(vgg11), 9220480 + 5130);
  // Torchvision's ResNet18, 34 and 50 have 11,689,512, 21,797,672 and 25,557,032 parameters with a first convolution of
  // 7x7 and a last layer of 1,000 classes; group norm has as many as batch norm.
  const auto residual = [](model_kind kind, std::int64_t channels) {
    return parameter_count(build_model({.kind = kind, .images = shape_of(dataset_kind::cifar10)})) - channels * 10 -
           10 + channels * 1000 + 1000 + 64 * 3 * (49 - 9);
  };
  EXPECT_EQ(residual(model_kind::resnet18, 512), 11689512);
  EXPECT_EQ(residual(model_kind::resnet34, 512), 21797672);
  EXPECT_EQ(residual(model_kind::resnet50, 2048), 25557032);
}

TEST(Model, IsInitialisedFromItsSeedAlone) {
  for (const auto kind : {model_kind::lenet, model_kind::vgg11, model_kind::vgg13, model_kind::vgg16, model_kind::vgg19,
                          model_kind::resnet18, model_kind::resnet34, model_kind::resnet50, model_kind::transformer,
                          model_kind::lstm, model_kind::ncf}) {
    model_options options{kind, 0.125, normalization_kind::group, shape_of(dataset_kind::cifar10), 5};
    if (kind == model_kind::transformer || kind == model_kind::lstm)
      options.images = {.classes = 20, .context = 6};
    if (kind == model_kind::ncf)
      options.images = {.classes = 5, .users = 9, .items = 8};
    torch::manual_seed(1);
    const auto first = model_checksum(*build_model(options));
    torch::manual_seed(2);
    EXPECT_EQ(model_checksum(*build_model(options)), first);
    options.seed = 6;
    EXPECT_NE(model_checksum(*build_model(options)), first);
  }
}

/// Deviations of all weights large enough to tell, and what docs/models.md says of them.
TEST(Model, DrawsEachWeightAtThePublishedScale) {
  const auto expect_scales = [](const model_options& options, const auto& deviation_of) {
    std::size_t told = 0;
    for (const auto& parameter : build_model(options)->named_parameters()) {
      const auto& weight = parameter.value();
      if (weight.dim() < 2 || weight.numel() < 1000)
        continue;
      ++told;
      const double expected = deviation_of(parameter.key(), static_cast<double>(weight[0].numel()));
      EXPECT_NEAR(weight.std().item<double>(), expected, 0.1 * expected) << parameter.key();
      EXPECT_NEAR(weight.mean().item<double>(), 0, 0.1 * expected) << parameter.key();
    }
    EXPECT_GE(told, 2U);
  };
  const auto uniform = [](double fan) { return 1 / std::sqrt(3 * fan); };
  const auto he = [&](const std::string& name, double fan_in) { // but for the last layer of all
    return name == "0.fc.weight" ? uniform(fan_in) : std::sqrt(2 / fan_in);
  };
  for (const auto kind : {model_kind::vgg11, model_kind::resnet18, model_kind::resnet50})
    expect_scales({.kind = kind, .width = 0.25, .images = {3, 32, 32, 2}}, he);
  expect_scales({.images = shape_of(dataset_kind::fashion_mnist)},
                [&](const std::string&, double fan_in) { return uniform(fan_in); });
  expect_scales({.kind = model_kind::transformer, .width = 0.25, .images = {.classes = 60, .context = 16}, .layers = 2},
                [](const std::string& name, double) {
                  return name.find("_out.") != std::string::npos ? 0.02 / std::sqrt(4) : 0.02;
                });
  expect_scales(
      {.kind = model_kind::lstm, .width = 0.25, .images = {.classes = 60, .context = 16}, .layers = 1},
      [&](const std::string& name, double) { return name.find("recurrent") != std::string::npos ? uniform(64) : 0.1; });
  expect_scales({.kind = model_kind::ncf, .images = {.classes = 5, .users = 90, .items = 80}},
                [&](const std::string& name, double fan_in) {
                  return name.find("perceptron") != std::string::npos ? uniform(fan_in) : 0.1;
                });
}

TEST(Model, KeepsTheScaleOfItsSignalAtTheStart) {
  // He initialisation: eight layers neither drown nor blow up the signal.
  const model_options options{model_kind::vgg11, 0.5, normalization_kind::none, shape_of(dataset_kind::cifar10), 1};
  torch::manual_seed(1);
  auto model = build_model(options);
  const auto deviation = model->forward(images_of(options, 64)).std().item<float>();
  EXPECT_GT(deviation, 0.05F);
  EXPECT_LT(deviation, 5.0F);
}

TEST(Model, WithGroupNormSeesEachSampleAlone) {
  const model_options options{model_kind::lenet, 1, normalization_kind::group, shape_of(dataset_kind::cifar10), 1};
  auto model = build_model(options);
  const auto images = images_of(options, 8);
  EXPECT_TRUE(
      torch::allclose(model->forward(images).narrow(0, 2, 3), model->forward(images.narrow(0, 2, 3)), 1e-4, 1e-5));
}

TEST(Model, TransformerSeesNoTokenBeforeItsTurn) {
  const model_options options{
      .kind = model_kind::transformer, .width = 0.125, .images = {.classes = 30, .context = 8}, .layers = 2};
  auto model = build_model(options);
  const auto tokens = torch::arange(16).view({2, 8});
  auto changed = tokens.clone();
  changed[1][5] = 3;
  const auto before = model->forward(tokens);
  const auto after = model->forward(changed);
  ASSERT_EQ(before.sizes(), (std::vector<std::int64_t>{2, 8, 30}));
  EXPECT_TRUE(torch::allclose(before[0], after[0]));
  EXPECT_TRUE(torch::allclose(before[1].narrow(0, 0, 5), after[1].narrow(0, 0, 5)));
  EXPECT_FALSE(torch::allclose(before[1][5], after[1][5]));
  EXPECT_FALSE(torch::allclose(before[1][7], after[1][7])) << "later ones do see it";
  before.square().sum().backward();
  for (const auto& parameter : model->named_parameters())
    EXPECT_TRUE(parameter.value().grad().defined()) << parameter.key();
}

TEST(Loss, OfATokenIsTheMeanOfASample) {
  torch::manual_seed(2);
  const auto logits = torch::randn({3, 4, 7});
  const auto labels = torch::randint(7, {3, 4});
  double sum = 0;
  for (int sample = 0; sample < 3; ++sample)
    sum += loss_sum(logits[sample], labels[sample]).item<double>() / 4;
  EXPECT_NEAR(loss_sum(logits, labels).item<double>(), sum, 1e-5);
  const auto right = torch::nn::functional::one_hot(labels, 7).to(torch::kFloat32);
  EXPECT_EQ(count_correct(right, labels), 3);
  EXPECT_EQ(count_correct(right.roll(1, 0), labels.roll(1, 0)), 3);
  auto half = labels.clone();
  half.narrow(1, 0, 2) = (half.narrow(1, 0, 2) + 1) % 7;
  EXPECT_EQ(count_correct(right, half), 1.5);
}

TEST(Model, LearnsToTellTwoPatternsApart) {
  const model_options options{.images = shape_of(dataset_kind::fashion_mnist), .seed = test_seed(1)};
  auto model = build_model(options);
  torch::manual_seed(test_seed(1));
  const auto labels = torch::arange(64) % 2;
  auto images = images_of(options, 64) * 0.5;
  images.narrow(3, 0, 14) += labels.view({64, 1, 1, 1}).to(torch::kFloat32);
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  float loss = 0;
  for (int step = 0; step < 60; ++step) {
    optimizer.zero_grad();
    const auto error = torch::cross_entropy_loss(model->forward(images), labels);
    error.backward();
    optimizer.step();
    loss = error.item<float>();
  }
  EXPECT_LT(loss, 0.05F);
}

} // namespace
} // namespace dynamix::trainer
