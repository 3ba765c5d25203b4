/// Forward passes in bfloat16: of every built-in model, and what training makes of them.

#include "tiny_training.hpp"
#include "trainer/autocast.hpp"
#include "trainer/loss.hpp"
#include "trainer/model.hpp"

#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

#include <vector>

namespace dynamix::trainer {
namespace {

using cluster::dataset_kind;
using cluster::model_kind;
using cluster::normalization_kind;
using cluster::precision_kind;

model_options small(model_kind kind) {
  model_options options{kind, 0.25, normalization_kind::group, shape_of(dataset_kind::cifar10), 5};
  if (kind == model_kind::transformer || kind == model_kind::lstm)
    options.images = {.classes = 20, .context = 6};
  if (kind == model_kind::ncf)
    options.images = {.classes = 5, .users = 9, .items = 8};
  return options;
}

struct labelled {
  torch::Tensor inputs, labels;
};

labelled samples_of(const model_options& options) {
  torch::manual_seed(3);
  const auto classes = static_cast<std::int64_t>(options.images.classes);
  if (options.kind == model_kind::transformer || options.kind == model_kind::lstm)
    return {torch::randint(classes, {8, 6}, torch::kInt64), torch::randint(classes, {8, 6}, torch::kInt64)};
  if (options.kind == model_kind::ncf)
    return {torch::randint(8, {8, 6}, torch::kInt64), torch::zeros({8}, torch::kInt64)};
  return {torch::randn({8, 3, 32, 32}), torch::randint(classes, {8}, torch::kInt64)};
}

/// All gradients of a pass, one behind the other.
torch::Tensor gradient_of(const model_options& options, precision_kind precision) {
  auto model = build_model(options);
  const auto [inputs, labels] = samples_of(options);
  torch::Tensor logits;
  {
    const autocast scope(precision, torch::kCPU);
    logits = model->forward(inputs);
  }
  loss_sum(logits, labels).backward();
  std::vector<torch::Tensor> all;
  for (const auto& parameter : model->named_parameters()) {
    EXPECT_EQ(parameter.value().grad().scalar_type(), torch::kFloat32) << parameter.key();
    all.push_back(parameter.value().grad().to_dense().reshape(-1));
  }
  return torch::cat(all);
}

class BFloat16 : public testing::TestWithParam<model_kind> {};

TEST_P(BFloat16, GivesNearlyTheSameGradientInFloat32) {
  const auto options = small(GetParam());
  const auto full = gradient_of(options, precision_kind::float32);
  const auto cast = gradient_of(options, precision_kind::bfloat16);
  EXPECT_FALSE(full.equal(cast)) << "nothing was computed in bfloat16";
  // Eight bits: up to 0.4 % an operation, which deep models add up, ResNet50 to 16 % on eight samples.
  EXPECT_LT((cast - full).norm().item<double>(), 0.3 * full.norm().item<double>());
}

INSTANTIATE_TEST_SUITE_P(, BFloat16,
                         testing::Values(model_kind::lenet, model_kind::vgg11, model_kind::resnet18,
                                         model_kind::resnet50, model_kind::transformer, model_kind::lstm,
                                         model_kind::ncf));

TEST(BFloat16Autocast, EndsWithItsScopeAndLeavesFloat32Alone) {
  const auto product = [] { return torch::ones({2, 2}).matmul(torch::ones({2, 2})).scalar_type(); };
  {
    const autocast none(precision_kind::float32, torch::kCPU);
    EXPECT_EQ(product(), torch::kFloat32);
  }
  {
    const autocast scope(precision_kind::bfloat16, torch::kCPU);
    EXPECT_EQ(product(), torch::kBFloat16);
  }
  EXPECT_EQ(product(), torch::kFloat32);
}

TEST(BFloat16Training, KeepsWorkersEqualAndLearns) {
  const auto train = tiny_dataset(600, 1);
  const auto test = tiny_dataset(200, 2);
  rank_options full;
  full.loop.training.epochs = 4;
  auto cast = full;
  cast.loop.training.precision = precision_kind::bfloat16;
  const auto ranks = train_ranks({cast, cast}, train, test);
  EXPECT_EQ(ranks[0].parameter_checksum, ranks[1].parameter_checksum);
  const auto plain = train_ranks({full, full}, train, test);
  EXPECT_NE(ranks[0].parameter_checksum, plain[0].parameter_checksum);
  EXPECT_NEAR(ranks[0].final_accuracy, plain[0].final_accuracy, 0.05);
  EXPECT_GT(ranks[0].final_accuracy, 0.6);
}

} // namespace
} // namespace dynamix::trainer
