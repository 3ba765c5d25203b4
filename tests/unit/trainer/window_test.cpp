#include "client/window_sums.hpp"
#include "messages/loss.hpp"
#include "tiny_training.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace dynamix::trainer {
namespace {

TEST(WindowSums, TimesStepsSinceTheBatchSizesChanged) {
  window_sums sums{.steps = 4,
                   .samples = 40,
                   .correct = 20,
                   .correct_samples = 40,
                   .timed_steps = 4,
                   .iteration_seconds = 4,
                   .compute_seconds = 2};
  sums.restart_times();
  EXPECT_EQ(sums.statistics({}, {}).iteration_seconds, 0) << "nothing was timed";
  sums.steps = 5;
  sums.timed_steps = 1;
  sums.iteration_seconds = 0.25;
  const auto statistics = sums.statistics({}, {});
  EXPECT_EQ(statistics.iteration_seconds, 0.25);
  EXPECT_EQ(statistics.steps, 5U);
  EXPECT_EQ(statistics.accuracy, 0.5);
}

TEST(WindowSums, AreMeansOverWhatIsKnown) {
  const window_sums sums{.steps = 10,
                         .samples = 640,
                         .correct = 16,
                         .loss = 128,
                         .gradient_norm = 6,
                         .correct_samples = 64,
                         .loss_samples = 64,
                         .norm_steps = 2};
  const auto statistics = sums.statistics({}, {});
  EXPECT_EQ(statistics.samples, 640U);
  EXPECT_EQ(statistics.accuracy, 0.25);
  EXPECT_EQ(statistics.loss, 2);
  EXPECT_EQ(statistics.gradient_norm, 3);
  const auto nothing = window_sums{.steps = 10, .samples = 640}.statistics({}, {});
  EXPECT_EQ(nothing.loss, 0);
  EXPECT_EQ(nothing.gradient_norm, 0);
}

TEST(WindowSums, TellALossOfAnySignAndOneOfZeroFromNone) {
  const auto sent = [](double loss) { return window_sums{.loss = loss, .loss_samples = 1}.statistics({}, {}).loss; };
  EXPECT_EQ(sent(-3), -3);
  EXPECT_EQ(messages::received_loss(sent(-3)), -3);
  EXPECT_NEAR(messages::received_loss(sent(0)), 0, 1e-300);
  EXPECT_TRUE(std::isnan(messages::received_loss(window_sums{}.statistics({}, {}).loss)));
  for (const double diverged : {-1e31, 1e31, double{INFINITY}, -double{INFINITY}, double{NAN}})
    EXPECT_EQ(sent(diverged), 1e30) << diverged;
}

TEST(TrainingLoop, ReportsEachWindowWithWhatHeldInIt) {
  const auto train = tiny_dataset(200, 5);
  const auto test = tiny_dataset(30, 6);
  std::vector<rank_options> options(2);
  for (std::uint32_t rank = 0; rank < 2; ++rank)
    options[rank].arrivals[1] = {decide(1, rank, 10 + 2 * rank, 10)};
  const auto results = train_ranks(options, train, test);
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    const auto& windows = results[rank].windows;
    ASSERT_EQ(windows.size(), 3U); // 10 steps of 16 samples, then 22 and the last 18
    for (std::size_t i = 0; i < windows.size(); ++i) {
      EXPECT_EQ(windows[i].window, i + 1);
      EXPECT_EQ(windows[i].first_step, 5 * i);
      EXPECT_EQ(windows[i].batch, i < 2 ? 8U : 10 + 2 * rank);
      EXPECT_EQ(windows[i].global_batch, i < 2 ? 16U : 22U);
      EXPECT_EQ(windows[i].decision.window, i < 2 ? 0U : 1U);
      EXPECT_EQ(windows[i].final, i == 2);
      EXPECT_EQ(windows[i].statistics.steps, i < 2 ? 5U : 2U);
      EXPECT_GT(windows[i].statistics.loss, 0);
      EXPECT_GT(windows[i].statistics.gradient_norm, 0);
      EXPECT_GT(windows[i].statistics.compute_seconds, 0);
      EXPECT_LE(windows[i].statistics.compute_seconds + windows[i].statistics.exchange_seconds,
                windows[i].statistics.iteration_seconds);
    }
    EXPECT_EQ(windows[1].epoch_samples, 160U);
    EXPECT_EQ(windows[2].epoch, 1U);
    EXPECT_EQ(windows[2].epoch_samples, 0U);
    EXPECT_TRUE(windows[2].statistics.gradient_valid);
    EXPECT_EQ(results[rank].decisions.applied, 1U);
    EXPECT_EQ(results[rank].decisions.late, 0U);
  }
}

TEST(TrainingLoop, AppliesADecisionWithinTheNextWindowAndTimesWhatRunsUnderIt) {
  const auto train = tiny_dataset(400, 5);
  const auto test = tiny_dataset(30, 6);
  std::vector<rank_options> options(2);
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    options[rank].arrivals[1] = {decide(1, rank, 10 + 2 * rank, 7)};
  }
  const auto results = train_ranks(options, train, test);
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    const auto& windows = results[rank].windows;
    ASSERT_GE(windows.size(), 3U);
    EXPECT_EQ(windows[0].batch, 8U);
    EXPECT_EQ(windows[1].batch, 10 + 2 * rank) << "in force at the window's end";
    EXPECT_EQ(windows[1].decision.window, 1U);
    EXPECT_EQ(windows[1].statistics.steps, 5U);
    EXPECT_EQ(windows[1].statistics.samples, 2 * 8 + 3 * (10 + 2 * rank)) << "no sample is forgotten";
    EXPECT_LE(windows[1].statistics.compute_seconds + windows[1].statistics.exchange_seconds,
              windows[1].statistics.iteration_seconds);
    EXPECT_EQ(results[rank].decisions.applied, 1U);
    EXPECT_EQ(results[rank].decisions.late, 0U);
  }
  EXPECT_TRUE(same_bits(results[0], results[1]));
}

} // namespace
} // namespace dynamix::trainer
