/// Batches computed in parts, also where the memory asks for it, and what a resume makes of them.

#include "tests/temporary_directory.hpp"
#include "tests/unit/exchange/ranks.hpp"
#include "tiny_training.hpp"
#include "trainer/ncf.hpp"
#include "trainer/out_of_memory.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <new>
#include <numeric>

namespace dynamix::trainer {
namespace {

/// Passes on batches up to a size and has no memory for larger ones: forward, or in backward when its turn comes.
class limited_memory final : public torch::nn::Module {
public:
  limited_memory(std::int64_t samples, bool in_backward) : samples_(samples), in_backward_(in_backward) {}
  torch::Tensor forward(const torch::Tensor& input) {
    largest = std::max(largest, input.size(0));
    if (input.size(0) <= samples_)
      return input;
    if (!in_backward_)
      throw std::bad_alloc();
    auto output = input * 1;
    output.register_hook([](const torch::Tensor&) -> void { throw std::bad_alloc(); });
    return output;
  }
  std::int64_t largest = 0;

private:
  std::int64_t samples_;
  bool in_backward_;
};

std::vector<std::uint32_t> first_samples(std::uint32_t count) {
  std::vector<std::uint32_t> samples(count);
  std::iota(samples.begin(), samples.end(), 0U);
  return samples;
}

struct computed {
  std::vector<torch::Tensor> gradients;
  step_result result;
  std::uint32_t micro_batch = 0;
};

computed compute(torch::nn::Sequential model, const dataset& data, std::uint32_t batch, step_settings settings) {
  batch_loader loader(data, measure_channels(data));
  const auto peers = exchange::make_silent_group(2);
  steady_clock time;
  const exchange::interruption never;
  training_step step(std::move(model), loader, *peers, time, never, settings);
  computed done;
  done.result = step.run(first_samples(batch), 1);
  for (const auto& parameter : step.parameters())
    done.gradients.push_back(parameter.grad().to_dense().clone());
  done.micro_batch = step.micro_batch();
  return done;
}

void expect_same(const computed& left, const computed& right) {
  EXPECT_EQ(left.result.gradients.global_batch, right.result.gradients.global_batch);
  EXPECT_EQ(left.result.correct, right.result.correct);
  EXPECT_NEAR(left.result.loss, right.result.loss, 1e-5 * right.result.loss);
  EXPECT_NEAR(left.result.gradients.square, right.result.gradients.square, 1e-5 * right.result.gradients.square);
  EXPECT_NEAR(left.result.gradients.own_square, right.result.gradients.own_square,
              1e-5 * right.result.gradients.own_square);
  ASSERT_EQ(left.gradients.size(), right.gradients.size());
  for (std::size_t i = 0; i < left.gradients.size(); ++i)
    EXPECT_TRUE(torch::allclose(left.gradients[i], right.gradients[i], 1e-5, 1e-7)) << i;
}

TEST(MicroBatch, GivesTheGradientOfTheWholeBatch) {
  const auto data = tiny_dataset(100, 3);
  const auto whole = compute(tiny_model(), data, 50, {.bucket_bytes = 256});
  for (const std::uint32_t part : {1U, 7U, 25U, 50U, 64U})
    expect_same(compute(tiny_model(), data, 50, {.bucket_bytes = 256, .micro_batch = part}), whole);
}

TEST(MicroBatch, AddsUpSparseGradients) {
  cluster::training training;
  training.model = cluster::model_kind::ncf;
  training.dataset = cluster::dataset_kind::interactions;
  training.interactions_scale = 0.001;
  dataset data;
  ASSERT_EQ(load_dataset(training, dataset_split::train, data), "");
  const auto model = [&] { return build_ncf(options_of(training, 1)); };
  torch::manual_seed(1);
  auto source = model();
  const auto copy = [&] {
    auto made = model();
    EXPECT_EQ(restore_model(model_records(*source), *made), "");
    return made;
  };
  expect_same(compute(copy(), data, 60, {.micro_batch = 16}), compute(copy(), data, 60, {}));
}

class MemoryLimit : public testing::TestWithParam<bool> {};

TEST_P(MemoryLimit, IsFoundKeptAndLeavesTheGradient) {
  const auto data = tiny_dataset(100, 3);
  const auto whole = compute(tiny_model(), data, 50, {.bucket_bytes = 256});
  torch::nn::Sequential model;
  const auto layers = tiny_model();
  // In the middle, so that later layers' gradients are on their way when it fails.
  std::size_t place = 0;
  const auto limit = std::make_shared<limited_memory>(10, GetParam());
  for (const auto& layer : *layers) {
    model->push_back(layer);
    if (++place == 3)
      model->push_back(limit);
  }
  const auto limited = compute(model, data, 50, {.bucket_bytes = 256});
  expect_same(limited, whole);
  EXPECT_EQ(limited.micro_batch, 7U) << "50, 25, 13, 7";
  EXPECT_EQ(limit->largest, 50);
}

INSTANTIATE_TEST_SUITE_P(, MemoryLimit, testing::Bool());

TEST(MemoryLimitOfNothing, IsAFailure) {
  const auto data = tiny_dataset(20, 3);
  torch::nn::Sequential model(tiny_model());
  model->push_back(std::make_shared<limited_memory>(0, false));
  EXPECT_THROW(compute(model, data, 8, {}), std::bad_alloc);
}

TEST(OutOfMemory, IsToldFromOtherErrors) {
  EXPECT_TRUE(is_out_of_memory(std::bad_alloc()));
  EXPECT_FALSE(is_out_of_memory(std::runtime_error("the shapes do not match")));
  try {
    torch::empty({std::int64_t{1} << 55});
    FAIL() << "nobody has that much";
  } catch (const std::exception& error) {
    EXPECT_TRUE(is_out_of_memory(error)) << error.what();
  }
}

TEST(ResumeInParts, WithPartsAugmentationScheduleAndSmoothingGivesTheSameBits) {
  const temporary_directory directory;
  const auto train = tiny_dataset(600, 1);
  const auto test = tiny_dataset(60, 2);
  rank_options whole;
  whole.loop.checkpoint_directory = directory.path();
  whole.loop.training.epochs = 2;
  whole.loop.training.checkpoint_every_epochs = 0.3;
  whole.loop.training.schedule = cluster::schedule_kind::cosine;
  whole.loop.training.warmup_samples = 200;
  whole.loop.training.label_smoothing = 0.1;
  whole.loop.training.augmentation = cluster::augmentation_kind::crop_flip;
  whole.loop.training.micro_batch = 3;
  const auto uninterrupted = train_ranks({whole, whole}, train, test);
  ASSERT_GE(uninterrupted[0].checkpoints.size(), 4U);
  auto plain = whole;
  plain.loop.checkpoint_directory.clear();
  plain.loop.training.augmentation = cluster::augmentation_kind::none;
  EXPECT_FALSE(same_bits(train_ranks({plain, plain}, train, test)[0], uninterrupted[0])) << "it changes something";
  for (const auto& [step, path] : uninterrupted[0].checkpoints) {
    if (step == uninterrupted[0].steps || !std::filesystem::exists(path)) // the newest three are left
      continue;
    auto rest = whole;
    rest.loop.checkpoint_directory.clear();
    rest.resume_from = path;
    EXPECT_TRUE(same_bits(train_ranks({rest, rest}, train, test)[0], uninterrupted[0])) << "from step " << step;
  }
}

} // namespace
} // namespace dynamix::trainer
