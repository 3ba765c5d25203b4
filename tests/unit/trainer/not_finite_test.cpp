/// Workers whose gradients are no numbers in some steps: a fault of memory, data that nobody looked at, a liar.

#include "tiny_training.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dynamix::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<rank_options> three_ranks(cluster::nan_kind nan) {
  std::vector<rank_options> options(3);
  for (auto& rank : options)
    rank.loop.training.nan = nan;
  return options;
}

TEST(NotFinite, EndsTrainingBeforeTheStepAndNamesWhoseGradientItIs) {
  auto options = three_ranks(cluster::nan_kind::stop);
  options[1].harmful_steps = {12};
  const auto results = train_ranks(options, tiny_dataset(2300, 1), tiny_dataset(100, 2));
  for (const auto& result : results) {
    EXPECT_EQ(result.end.how, ending::stopped);
    EXPECT_THAT(result.end.reason, HasSubstr("the gradient of rank 1 in step 12 is not finite"));
    EXPECT_EQ(result.steps, 13U) << "that one's samples are used up";
    EXPECT_TRUE(same_bits(result, results[0]));
    for (const auto& parameter : result.parameters)
      EXPECT_TRUE(torch::isfinite(parameter).all().item<bool>());
  }
}

TEST(NotFinite, IsDroppedByAllWhoThenGoOnWithTheSameBits) {
  auto options = three_ranks(cluster::nan_kind::drop);
  options[0].harmful_steps = {3};
  options[2].harmful_steps = {3, 20};
  const auto results = train_ranks(options, tiny_dataset(2300, 1), tiny_dataset(100, 2));
  for (const auto& result : results) {
    EXPECT_EQ(result.end.how, ending::completed);
    EXPECT_EQ(result.samples, 2300U);
    EXPECT_TRUE(same_bits(result, results[0]));
    EXPECT_THAT(result.dropped, ElementsAre("the gradient of rank 0, of rank 2 in step 3 is not finite",
                                            "the gradient of rank 2 in step 20 is not finite"));
    for (const auto& window : result.windows)
      EXPECT_LT(window.statistics.loss, 10) << "what was dropped is not reported";
  }
  EXPECT_GT(results[0].final_accuracy, 0.6);
}

TEST(NotFinite, EndsTrainingOfWhichNothingComesAnyMore) {
  auto options = three_ranks(cluster::nan_kind::drop);
  for (auto& rank : options)
    for (std::uint64_t step = 10; step < 100; ++step)
      rank.harmful_steps.insert(step);
  const auto results = train_ranks(options, tiny_dataset(2300, 1), tiny_dataset(100, 2));
  EXPECT_EQ(results[0].end.how, ending::stopped);
  EXPECT_EQ(results[0].end.reason,
            "50 steps in a row were dropped: the gradients of all workers in step 59 are not finite");
}

TEST(NotFinite, IsFoundByAWorkerWithoutPeers) {
  rank_options alone;
  alone.harmful_steps = {7};
  const auto results = train_ranks({alone}, tiny_dataset(300, 1), tiny_dataset(30, 2));
  EXPECT_EQ(results[0].end.how, ending::stopped);
  EXPECT_THAT(results[0].end.reason, HasSubstr("the gradient of rank 0 in step "));
}

} // namespace
} // namespace dynamix::trainer
