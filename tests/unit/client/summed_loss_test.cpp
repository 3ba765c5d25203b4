#include "client/summed_loss.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>

namespace dynamix::client {
namespace {

/// Whether losses are told to be sums within so many steps of two workers of 6 and 2 samples. `signal` is |G|^2 for
/// gradients of 20 dimensions, each with a variance of 1.
bool is_told(bool sums, double signal, int steps, unsigned seed, double other_batch = 2) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal;
  summed_loss watched;
  bool told = false;
  for (int step = 0; step < steps; ++step) {
    std::array<batch_square, 2> workers{{{.samples = 6}, {.samples = other_batch}}};
    for (auto& each : workers) {
      for (int i = 0; i < 20; ++i)
        each.square += std::pow(std::sqrt(signal / 20) + normal(generator) / std::sqrt(each.samples), 2);
      if (sums)
        each.square *= each.samples * each.samples;
    }
    told = watched.observe(workers) || told;
  }
  return told;
}

TEST(SummedLoss, IsToldWhateverTheNoise) {
  for (unsigned seed = 0; seed < 50; ++seed)
    for (const double signal : {0.0, 1.0, 100.0})
      EXPECT_TRUE(is_told(true, signal, 60, seed)) << signal;
}

TEST(SummedLoss, IsNotSupposedOfMeans) {
  for (unsigned seed = 0; seed < 50; ++seed)
    for (const double signal : {0.0, 1.0, 100.0})
      EXPECT_FALSE(is_told(false, signal, 1000, seed)) << signal;
}

TEST(SummedLoss, CannotBeToldOfEqualBatches) {
  EXPECT_FALSE(is_told(true, 1, 100, 1, 6));
}

TEST(SummedLoss, IsNotSupposedWhereWorkersDataDiffer) {
  for (const double other_batch : {5.5, 2.0}) {
    summed_loss watched;
    for (int step = 0; step < 100; ++step) {
      const double square = 1 + 0.01 * (step % 7);
      const std::array<batch_square, 2> workers{{{6, 3000 * square}, {other_batch, 1}}};
      EXPECT_FALSE(watched.observe(workers));
    }
  }
}

TEST(SummedLoss, IgnoresWhatIsNoNumber) {
  summed_loss watched;
  const std::array<batch_square, 3> workers{{{6, NAN}, {2, INFINITY}, {0, 3}}};
  for (int step = 0; step < 100; ++step)
    EXPECT_FALSE(watched.observe(workers));
}

} // namespace
} // namespace dynamix::client
