#include "trainer/model.hpp"
#include "trainer/tensor_records.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dynamix::trainer {
namespace {

using testing::HasSubstr;

TEST(TensorRecord, KeepsEveryTypeShapeAndBit) {
  for (const auto& tensor : {torch::randn({2, 3}), torch::randn({4}, torch::kFloat64),
                             torch::tensor({-1, 5}, torch::kInt64), torch::tensor({0, 255}, torch::kUInt8),
                             torch::empty({0, 3}), torch::tensor(7, torch::kInt64), torch::randn({3, 4}).t()}) {
    const auto record = to_record("x", tensor);
    const auto back = to_tensor(record);
    EXPECT_EQ(back.scalar_type(), tensor.scalar_type());
    EXPECT_EQ(back.sizes(), tensor.sizes());
    EXPECT_TRUE(torch::equal(back, tensor));
  }
}

TEST(TensorRecord, IsACopy) {
  auto tensor = torch::zeros({2});
  const auto record = to_record("x", tensor);
  tensor.fill_(1);
  EXPECT_TRUE(torch::equal(to_tensor(record), torch::zeros({2})));
}

model_options options(std::uint64_t seed) {
  return {.normalization = cluster::normalization_kind::group,
          .images = shape_of(cluster::dataset_kind::fashion_mnist),
          .seed = seed};
}

TEST(ModelRecords, MoveAModelBitForBit) {
  const auto source = build_model(options(1));
  auto target = build_model(options(2));
  ASSERT_NE(model_checksum(*source), model_checksum(*target));
  ASSERT_EQ(restore_model(model_records(*source), *target), "");
  EXPECT_EQ(model_checksum(*source), model_checksum(*target));
  // Restored parameters are the same leaves: an optimiser that holds them keeps working.
  EXPECT_TRUE(target->parameters()[0].is_leaf() && target->parameters()[0].requires_grad());
}

TEST(ModelRecords, ThatDoNotFitChangeNothing) {
  auto model = build_model(options(1));
  const auto before = model_checksum(*model);
  const auto good = model_records(*build_model(options(2)));

  auto missing = good;
  missing.pop_back();
  EXPECT_THAT(restore_model(missing, *model), HasSubstr("no tensor \"" + good.back().name + "\""));
  auto misshapen = good;
  misshapen.back() = to_record(good.back().name, torch::zeros({11}));
  EXPECT_THAT(restore_model(misshapen, *model), HasSubstr("has the shape [11], expected [10]"));
  auto wrong_type = good;
  wrong_type.back() = to_record(good.back().name, torch::zeros({10}, torch::kFloat64));
  EXPECT_THAT(restore_model(wrong_type, *model), HasSubstr("another element type"));
  auto extra = good;
  extra.push_back(to_record("extra", torch::zeros({1})));
  EXPECT_THAT(restore_model(extra, *model), HasSubstr("model tensors, expected"));
  EXPECT_EQ(model_checksum(*model), before);
}

TEST(ModelChecksum, ChangesWithASingleBit) {
  auto model = build_model(options(1));
  const auto before = model_checksum(*model);
  auto parameter = model->parameters()[0];
  const torch::NoGradGuard no_gradients;
  reinterpret_cast<std::uint8_t*>(parameter.data_ptr())[0] ^= 1U;
  EXPECT_NE(model_checksum(*model), before);
}

} // namespace
} // namespace dynamix::trainer
