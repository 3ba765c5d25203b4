#include "client/gradient_noise.hpp"
#include "client/random.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace dynamix::client {
namespace {

/// Gaussian sample gradients around `mean` in `dimensions` dimensions, each with variance `variance`, and what workers
/// with these batch sizes would show of one step.
class synthetic_gradients {
public:
  synthetic_gradients(std::size_t dimensions, double mean, double variance)
      : dimensions_(dimensions), mean_(mean), variance_(variance) {}

  gradient_observation draw(const std::vector<std::uint32_t>& batches) {
    gradient_observation observation;
    std::vector<double> sum(dimensions_, 0);
    for (std::size_t worker = 0; worker < batches.size(); ++worker) {
      const double batch = batches[worker];
      double square = 0;
      for (auto& component : sum) {
        // The mean of b Gaussian samples is Gaussian with a b-th of the variance.
        const double gradient = mean_ + std::sqrt(variance_ / batch) * normal_(generator_);
        square += gradient * gradient;
        component += batch * gradient;
      }
      observation.weighted_square_sum += batch * square;
      observation.global_batch += batches[worker];
      if (worker == 0) {
        observation.own_square = square;
        observation.own_batch = batches[0];
      }
    }
    observation.active_workers = static_cast<std::uint32_t>(batches.size());
    for (const auto component : sum)
      observation.global_square += std::pow(component / static_cast<double>(observation.global_batch), 2);
    return observation;
  }

  double trace() const { return static_cast<double>(dimensions_) * variance_; }
  double gradient_square() const { return static_cast<double>(dimensions_) * mean_ * mean_; }

private:
  std::size_t dimensions_;
  double mean_;
  double variance_;
  std::mt19937_64 generator_{42};
  std::normal_distribution<double> normal_;
};

struct moments {
  double sum = 0;
  double square_sum = 0;
  int count = 0;

  void add(double value) {
    sum += value;
    square_sum += value * value;
    ++count;
  }
  double mean() const { return sum / count; }
  double standard_error() const { return std::sqrt((square_sum / count - mean() * mean()) / (count - 1)); }
  double deviation() const { return std::sqrt(square_sum / count - mean() * mean()); }
};

TEST(GradientNoise, EstimatesWithoutBiasAtUnequalBatches) {
  synthetic_gradients gradients(8, 0.25, 4.0);
  moments trace;
  moments square;
  for (int draw = 0; draw < 10000; ++draw) {
    const auto sample = estimate_noise(gradients.draw({16, 64, 64, 256}));
    ASSERT_TRUE(sample.valid);
    trace.add(sample.trace);
    square.add(sample.gradient_square);
  }
  EXPECT_NEAR(trace.mean(), gradients.trace(), 3 * trace.standard_error());
  EXPECT_NEAR(square.mean(), gradients.gradient_square(), 3 * square.standard_error());
  // Sharp enough to tell the formula for equal batches, which over-reads the trace 1.6 times or more.
  EXPECT_LT(trace.standard_error(), 0.01 * gradients.trace());
}

TEST(GradientNoise, MatchesAStepWorkedOutByHand) {
  // b = (1, 3), g_1 = 4, g_2 = 0 in one dimension: g = 1, sum b|g_i|^2 = 16, tr = (16 - 4*1)/1 = 12, |G|^2 = 1 - 12/4.
  const auto sample =
      estimate_noise({.active_workers = 2, .weighted_square_sum = 16, .global_square = 1, .global_batch = 4});
  EXPECT_DOUBLE_EQ(sample.trace, 12);
  EXPECT_DOUBLE_EQ(sample.gradient_square, -2);
}

TEST(GradientNoise, LearnsNothingFromOneWorkerOrFromNumbersThatAreNotFinite) {
  EXPECT_FALSE(
      estimate_noise({.active_workers = 1, .weighted_square_sum = 1, .global_square = 1, .global_batch = 4}).valid);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  gradient_noise noise;
  const auto sample =
      noise.observe({.active_workers = 2, .weighted_square_sum = nan, .global_square = 1, .global_batch = 4});
  EXPECT_FALSE(sample.valid);
  EXPECT_EQ(noise.state(), noise_state{});
}

TEST(GradientNoise, AveragesToTheTrueNoiseScaleAndRelativeVariance) {
  synthetic_gradients gradients(200, 0.5, 2.0);
  gradient_noise noise({.decay = 0.999, .critical = 1});
  const std::vector<std::uint32_t> first{32, 64, 96};
  const std::vector<std::uint32_t> second{128, 64, 32};
  for (int step = 0; step < 6000; ++step)
    noise.observe(gradients.draw(step % 2 == 0 ? first : second));
  const auto estimate = noise.estimate();
  ASSERT_TRUE(estimate.valid && estimate.own_valid);
  const double expected = gradients.trace() / gradients.gradient_square();
  EXPECT_NEAR(estimate.noise_scale, expected, 0.15 * expected);
  // For the batch of the last step, although the worker's batch kept changing: sigma^2 = tr / (b |G|^2).
  EXPECT_NEAR(estimate.sigma2_norm, expected / 128, 0.05 * expected / 128);
  EXPECT_DOUBLE_EQ(estimate.sigma_norm, std::sqrt(estimate.sigma2_norm));
}

TEST(GradientNoise, ReducesToThePlainDefinitionAtAConstantBatch) {
  gradient_noise noise({.decay = 0.5, .warm_up_steps = 1, .critical = 1});
  noise.observe({.active_workers = 2,
                 .weighted_square_sum = 90,
                 .global_square = 4,
                 .global_batch = 20,
                 .own_square = 6,
                 .own_batch = 10});
  // tr = (90 - 80)/1 = 10, |G|^2 = 4 - 10/20 = 3.5, sigma^2 = (6 - 3.5)/3.5.
  const auto estimate = noise.estimate();
  EXPECT_NEAR(estimate.noise_scale, 10 / 3.5, 1e-12);
  EXPECT_NEAR(estimate.sigma2_norm, 2.5 / 3.5, 1e-12);
}

/// Averages of tr and |G|^2 took LeNet from 54 to 5 by such a step.
TEST(GradientNoise, IsHardlyMovedByOneGradientTenTimesAsLong) {
  synthetic_gradients gradients(1000, 0.1, 1.0);
  const std::vector<std::uint32_t> batches{64, 64};
  for (const double noise_too : {1.0, 100.0}) { // the long gradient may be noise or not
    gradient_noise noise;
    for (int step = 0; step < 100; ++step)
      noise.observe(gradients.draw(batches));
    const double before = noise.estimate().noise_scale;
    auto spike = gradients.draw(batches);
    const double trace = spike.weighted_square_sum - 128 * spike.global_square;
    spike.global_square *= 100;
    spike.weighted_square_sum = 128 * spike.global_square + noise_too * trace;
    noise.observe(spike);
    EXPECT_NEAR(noise.estimate().noise_scale, before, 0.1 * before) << noise_too;
  }
}

TEST(GradientNoise, ComesToTheSameFromGlobalBatchesOf32To1024AndTwoToEightWorkersOrHalves) {
  constexpr double phi = 150;
  for (const std::uint32_t batch : {32U, 128U, 512U, 1024U})
    for (const std::uint32_t workers : {2U, 3U, 8U}) { // a worker without peers shows two halves
      synthetic_gradients gradients(2000, 0.1, 0.01 * phi);
      gradient_noise noise({.critical = 1});
      moments seen;
      for (int step = 0; step < 400; ++step) {
        std::vector<std::uint32_t> batches(workers, batch / workers);
        batches.front() += batch % workers;
        noise.observe(gradients.draw(batches));
        if (step >= 100)
          seen.add(noise.estimate().noise_scale);
      }
      EXPECT_NEAR(seen.mean(), phi, 0.15 * phi) << batch << " over " << workers;
    }
}

TEST(GradientNoise, StaysWhenTheGlobalBatchChanges) {
  synthetic_gradients gradients(2000, 0.1, 1.0);
  gradient_noise noise;
  for (int step = 0; step < 200; ++step)
    noise.observe(gradients.draw({16, 16}));
  const double before = noise.estimate().noise_scale;
  noise.observe(gradients.draw({256, 256}));
  EXPECT_NEAR(noise.estimate().noise_scale, before, 0.1 * before);
}

/// By which a plan knows how far to trust it.
TEST(GradientNoise, SaysHowFarItIsOffByChance) {
  synthetic_gradients gradients(40, 0.2, 1.0);
  moments errors;
  double said = 0;
  for (int run = 0; run < 200; ++run) {
    gradient_noise noise({.critical = 1});
    for (int step = 0; step < 60; ++step)
      noise.observe(gradients.draw({8, 8, 8}));
    errors.add(std::log(noise.estimate().noise_scale / 25));
    said += noise.estimate().noise_error / 200;
  }
  EXPECT_GT(said, 0.6 * errors.deviation());
  EXPECT_LT(said, 1.6 * errors.deviation());
}

TEST(GradientNoise, IsLessSureOfItsFirstStepsAndKnowsNoErrorOfAnotherProcess) {
  synthetic_gradients gradients(40, 0.2, 1.0);
  gradient_noise noise;
  noise.observe(gradients.draw({8, 8}));
  EXPECT_EQ(noise.estimate().noise_error, 0) << "of one step";
  double early = 0;
  for (int step = 0; step < 200; ++step) {
    noise.observe(gradients.draw({8, 8}));
    early += step < 8 ? noise.estimate().noise_error / 8 : 0;
  }
  EXPECT_LT(noise.estimate().noise_error, early);
  noise.restore(noise.state());
  EXPECT_EQ(noise.estimate().noise_error, 0);
}

TEST(GradientNoise, WarmsUpAnewFromAStateOfBeforeTheShare) {
  synthetic_gradients gradients(10, 1, 1);
  gradient_noise noise;
  for (int step = 0; step < 20; ++step)
    noise.observe(gradients.draw({8, 8}));
  auto state = noise.state();
  state.share = {};
  state.batch = 0;
  noise.restore(state);
  EXPECT_FALSE(noise.estimate().valid);
}

TEST(GradientNoise, BoundsTheNoiseScaleWhenTheGradientVanishes) {
  gradient_noise noise({.warm_up_steps = 1, .critical = 1});
  // tr = (300 - 100)/1 = 200, |G|^2 = 1 - 2 = -1: all noise.
  noise.observe({.active_workers = 2, .weighted_square_sum = 300, .global_square = 1, .global_batch = 100});
  EXPECT_NEAR(noise.estimate().noise_scale, 99 * 100, 1e-6);
  gradient_noise still({.warm_up_steps = 1});
  still.observe({.active_workers = 2, .weighted_square_sum = 0, .global_square = 0, .global_batch = 100});
  EXPECT_FALSE(still.estimate().valid);
}

TEST(GradientNoise, IsNotValidUntilItHasWarmedUp) {
  synthetic_gradients gradients(10, 1, 1);
  gradient_noise noise({.warm_up_steps = 3});
  for (int step = 1; step <= 4; ++step) {
    noise.observe(gradients.draw({8, 8}));
    EXPECT_EQ(noise.estimate().valid, step >= 3) << step;
  }
}

TEST(GradientNoise, CountsItsOwnGradientOnlyWhereItTookPart) {
  synthetic_gradients gradients(10, 1, 1);
  gradient_noise noise({.warm_up_steps = 1});
  auto observation = gradients.draw({8, 8, 8});
  observation.own_batch = 0;
  observation.own_square = 0;
  noise.observe(observation);
  EXPECT_TRUE(noise.estimate().valid);
  EXPECT_FALSE(noise.estimate().own_valid);
  noise.observe(gradients.draw({8, 8, 8}));
  EXPECT_TRUE(noise.estimate().own_valid);
}

TEST(GradientNoise, GoesOnFromASavedStateBitForBit) {
  synthetic_gradients gradients(10, 1, 1);
  gradient_noise whole;
  gradient_noise resumed;
  for (int step = 0; step < 20; ++step)
    whole.observe(gradients.draw({8, 24}));
  resumed.restore(whole.state());
  EXPECT_FALSE(resumed.estimate().own_valid);
  for (int step = 0; step < 20; ++step) {
    const auto observation = gradients.draw({16, 8});
    whole.observe(observation);
    resumed.observe(observation);
    ASSERT_EQ(whole.state(), resumed.state());
  }
  EXPECT_EQ(whole.estimate().noise_scale, resumed.estimate().noise_scale);
}

} // namespace
} // namespace dynamix::client
