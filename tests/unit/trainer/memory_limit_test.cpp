/// Memory that ends: how tensors and evaluations meet it, and a whole training under it.

#include "session_fixture.hpp"
#include "tests/unit/exchange/stores.hpp"
#include "trainer/evaluation.hpp"
#include "trainer/memory_limit.hpp"
#include "trainer/out_of_memory.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <malloc.h>

namespace dynamix::trainer {
namespace {

constexpr std::uint64_t mb = 1 << 20;

/// What the process holds, but for what was freed.
std::uint64_t settled_bytes() {
  ::malloc_trim(0);
  return own_resident_bytes();
}

class TensorMemory : public session_fixture {
protected:
  ~TensorMemory() override { limit_tensor_memory(0); }
};

TEST_F(TensorMemory, EndsAtTheLimitAndNotBeforeIt) {
  limit_tensor_memory(settled_bytes() + 60 * mb);
  {
    const auto first = torch::ones({static_cast<std::int64_t>(30 * mb / sizeof(float))});
    try {
      torch::ones({static_cast<std::int64_t>(40 * mb / sizeof(float))});
      FAIL() << "there is no room for it";
    } catch (const std::exception& error) {
      EXPECT_TRUE(is_out_of_memory(error)) << error.what();
    }
    EXPECT_EQ(torch::ones({4}).sum().item<float>(), 4);
  }
  EXPECT_NO_THROW(torch::ones({static_cast<std::int64_t>(40 * mb / sizeof(float))})) << "the first one is gone";
  limit_tensor_memory(0);
  EXPECT_NO_THROW(torch::ones({static_cast<std::int64_t>(80 * mb / sizeof(float))}));
}

/// Takes a MB per sample.
class large_layer final : public torch::nn::Module {
public:
  torch::Tensor forward(const torch::Tensor& images) {
    largest = std::max(largest, images.size(0));
    const auto large = torch::ones({images.size(0), static_cast<std::int64_t>(mb / sizeof(float))});
    return torch::cat({images.flatten(1).narrow(1, 0, 9), large.narrow(1, 0, 1)}, 1);
  }
  std::int64_t largest = 0;
};

TEST_F(TensorMemory, MakesEvaluationsSmallerAndLeavesTheirSums) {
  dataset images;
  ASSERT_EQ(load_dataset(file.training, dataset_split::test, images), "");
  batch_loader loader(images, measure_channels(images));
  const auto layer = std::make_shared<large_layer>();
  torch::nn::Sequential model;
  model->push_back(layer);
  const auto whole = evaluate(model, loader, {0, 50}, 50);
  EXPECT_EQ(layer->largest, 50);
  limit_tensor_memory(settled_bytes() + 20 * mb);
  const auto parts = evaluate(model, loader, {0, 50}, 50);
  EXPECT_EQ(parts.count, whole.count);
  EXPECT_EQ(parts.correct, whole.correct);
  EXPECT_NEAR(parts.loss, whole.loss, 1e-4 * whole.loss);
  limit_tensor_memory(settled_bytes());
  EXPECT_THROW(evaluate(model, loader, {0, 50}, 50), std::exception) << "not even one fits";
}

class limit_observer final : public quiet_observer {
public:
  void memory_limited(std::uint32_t micro_batch, std::uint64_t samples) override {
    limits.emplace_back(micro_batch, samples);
  }
  std::vector<std::pair<std::uint32_t, std::uint64_t>> limits;
};

TEST_F(TensorMemory, MakesTrainingGoOnInPartsAndIsTold) {
  set_workers(1);
  file.batch.initial = 400;
  const auto train = [&](limit_observer& watcher) {
    exchange::memory_store meeting;
    steady_clock time;
    session training(options_of(0), time);
    decision_slot decisions(0, 1, 1024);
    exchange::interruption never;
    return training.train(place_of(0, {0}), meeting, decisions, watcher, never);
  };
  file.batch.initial = 5; // what the libraries take at first
  limit_observer small;
  ASSERT_EQ(train(small).how, ending::completed);
  file.batch.initial = 400;
  file.training.epochs = 3;
  limit_observer whole;
  ASSERT_EQ(train(whole).how, ending::completed);
  EXPECT_TRUE(whole.limits.empty());
  file.training.memory_mb = static_cast<std::uint32_t>((settled_bytes() + 24 * mb) / mb);
  limit_observer limited;
  const auto end = train(limited);
  EXPECT_EQ(end.how, ending::completed) << end.reason;
  EXPECT_EQ(end.samples, 1200U);
  ASSERT_FALSE(limited.limits.empty());
  EXPECT_LT(limited.limits.back().first, 400U);
  EXPECT_GE(limited.limits.back().first, 5U);
}

} // namespace
} // namespace dynamix::trainer
