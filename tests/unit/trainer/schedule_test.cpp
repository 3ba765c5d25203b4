#include "trainer/augmentation.hpp"
#include "trainer/schedule.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <set>
#include <vector>

namespace dynamix::trainer {
namespace {

using testing::ElementsAre;

TEST(Schedule, IsOneWhereNothingIsAskedFor) {
  EXPECT_EQ(schedule_factor({}, 0, 64, 1000), 1);
  EXPECT_EQ(schedule_factor({}, 990, 64, 1000), 1);
}

TEST(Schedule, RisesWithTheSamplesOfTheStep) {
  cluster::training training;
  training.warmup_samples = 100;
  EXPECT_DOUBLE_EQ(schedule_factor(training, 0, 10, 1000), 0.1);
  EXPECT_DOUBLE_EQ(schedule_factor(training, 40, 20, 1000), 0.6);
  EXPECT_DOUBLE_EQ(schedule_factor(training, 90, 64, 1000), 1);
  EXPECT_DOUBLE_EQ(schedule_factor(training, 500, 64, 1000), 1);
}

TEST(Schedule, FallsByHalfACosineWhateverTheBatchSizes) {
  cluster::training training;
  training.schedule = cluster::schedule_kind::cosine;
  training.warmup_samples = 100;
  EXPECT_DOUBLE_EQ(schedule_factor(training, 50, 25, 1100), 0.75);
  EXPECT_DOUBLE_EQ(schedule_factor(training, 100, 1, 1100), 1);
  EXPECT_DOUBLE_EQ(schedule_factor(training, 350, 1, 1100), (1 + std::cos(std::numbers::pi / 4)) / 2);
  EXPECT_DOUBLE_EQ(schedule_factor(training, 600, 1, 1100), schedule_factor(training, 600, 500, 1100));
  EXPECT_DOUBLE_EQ(schedule_factor(training, 600, 1, 1100), 0.5);
  EXPECT_NEAR(schedule_factor(training, 1100, 1, 1100), 0, 1e-15);
  EXPECT_GT(schedule_factor(training, 1099, 64, 1100), 0) << "the last step trains, too";
}

TEST(Augmentation, MovesAndReflectsWithinABlackBorder) {
  const std::vector<std::uint8_t> image = {1, 2, 3, 4, 5, 6};
  std::vector<std::uint8_t> changed(6);
  change_image(image.data(), 2, 3, {}, changed.data());
  EXPECT_EQ(changed, image);
  change_image(image.data(), 2, 3, {.down = 1, .right = 0}, changed.data());
  EXPECT_THAT(changed, ElementsAre(4, 5, 6, 0, 0, 0));
  change_image(image.data(), 2, 3, {.down = 0, .right = -2}, changed.data());
  EXPECT_THAT(changed, ElementsAre(0, 0, 1, 0, 0, 4));
  change_image(image.data(), 2, 3, {.down = -1, .right = 1, .flip = true}, changed.data());
  EXPECT_THAT(changed, ElementsAre(0, 0, 0, 0, 3, 2));
}

TEST(Augmentation, IsDrawnForASampleAndAnEpoch) {
  std::set<std::tuple<int, int, bool>> seen;
  for (std::uint64_t sample = 0; sample < 3000; ++sample) {
    const auto change = draw_change(1, 2, sample);
    EXPECT_LE(std::abs(change.down), image_change::border);
    EXPECT_LE(std::abs(change.right), image_change::border);
    seen.emplace(change.down, change.right, change.flip);
  }
  EXPECT_EQ(seen.size(), 9U * 9 * 2) << "all of them come";
  const auto all_of = [](std::uint64_t seed, std::uint64_t epoch) {
    std::vector<int> drawn;
    for (std::uint64_t sample = 0; sample < 20; ++sample)
      drawn.push_back(draw_change(seed, epoch, sample).down * 100 + draw_change(seed, epoch, sample).right);
    return drawn;
  };
  EXPECT_EQ(all_of(1, 2), all_of(1, 2));
  EXPECT_NE(all_of(1, 2), all_of(1, 3));
  EXPECT_NE(all_of(1, 2), all_of(2, 2));
}

} // namespace
} // namespace dynamix::trainer
