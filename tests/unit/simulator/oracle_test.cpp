#include "examples.hpp"
#include "policy/water_filling.hpp"
#include "simulator/oracle.hpp"

#include <gtest/gtest.h>

#include <random>

namespace dynamix::simulator {
namespace {

using batches = std::vector<std::uint32_t>;

constexpr double slack = 1 - 1.001e-3; // the oracle's tolerance

class OracleTest : public ::testing::Test {
protected:
  double uniform(double low, double high) { return std::uniform_real_distribution(low, high)(generator_); }
  std::size_t below(std::size_t bound) { return generator_() % bound; }

  /// A truth over so many workers; every second one has an exchange, every third flat pieces in its curves.
  truth make_truth(std::size_t workers, std::uint32_t highest, std::uint32_t cores = 0) {
    profiles_.assign(workers, {});
    truth now{.cores = cores,
              .exchange_seconds = static_cast<double>(below(2)) * uniform(0, 0.2),
              .overlap = 1 + static_cast<double>(below(3)),
              .phi = uniform(1, 200)};
    now.learning = {.initial_batch = 4.0 * static_cast<double>(workers), .reference_batch = uniform(4, 64)};
    for (std::size_t i = 0; i < workers; ++i) {
      if (i == 0 || cores == 0)
        profiles_[i] = cores == 0 ? rough_profile(highest) : smooth_profile(highest);
      else
        profiles_[i] = profiles_[0];
      now.profiles.push_back(&profiles_[i]);
      now.slowdown.emplace_back(below(2) == 0 ? 1 : uniform(1, 4));
      if (cores == 0 && below(3) == 0) { // within the step
        now.slowdown.back().change_at(uniform(0.01, 0.2), uniform(1, 4));
        now.slowdown.back().change_at(uniform(0.2, 0.4), uniform(1, 4));
      }
      now.highest.push_back(static_cast<std::uint32_t>(highest - below(highest / 2)));
    }
    return now;
  }

  /// Of all batch sizes from `lowest` on in such steps.
  static double best_of_all(const truth& now, std::uint32_t lowest, std::uint32_t step = 1) {
    batches split(now.highest.size(), lowest);
    double best = 0;
    for (std::size_t i = 0; i < split.size();) {
      best = std::max(best, now.goodput(split));
      for (i = 0; i < split.size() && split[i] + step > now.highest[i]; ++i)
        split[i] = lowest;
      if (i < split.size())
        split[i] += step;
    }
    return best;
  }

private:
  device_profile rough_profile(std::uint32_t highest) {
    device_profile profile;
    double seconds = uniform(0.001, 0.1);
    for (double batch = 1; batch <= highest; batch += 1 + static_cast<double>(below(4))) {
      profile.points.push_back({.batch = batch, .seconds = seconds});
      seconds += below(3) == 0 ? 0 : uniform(0, 0.03);
    }
    profile.curve = monotone_curve(profile.points);
    return profile;
  }

  /// A fixed cost, and samples whose cost varies by a third either way.
  device_profile smooth_profile(std::uint32_t highest) {
    device_profile profile;
    double seconds = uniform(0.001, 0.1);
    for (double batch = 1; batch <= highest; batch *= 2) {
      profile.points.push_back({.batch = batch, .seconds = seconds});
      seconds += 0.001 * batch * uniform(0.67, 1.33);
    }
    profile.curve = monotone_curve(profile.points);
    return profile;
  }

  std::mt19937_64 generator_{11};
  std::vector<device_profile> profiles_;
};

void expect_within_limits(const truth& now, const batches& split, std::uint32_t lowest) {
  ASSERT_EQ(split.size(), now.highest.size());
  for (std::size_t i = 0; i < split.size(); ++i) {
    EXPECT_GE(split[i], lowest);
    EXPECT_LE(split[i], now.highest[i]);
  }
}

TEST_F(OracleTest, IsAsGoodAsTheBestOfAllBatchSizes) {
  for (int trial = 0; trial < 150; ++trial) {
    const auto now = make_truth(1 + below(3), 14);
    const auto split = best_batches(now, {.initial = 2, .lowest = 2, .highest = 14});
    expect_within_limits(now, split, 2);
    EXPECT_GE(now.goodput(split), slack * best_of_all(now, 2)) << trial;
  }
}

TEST_F(OracleTest, IsNearlyAsGoodAsTheBestOfAllOnSharedCores) {
  double sum = 0;
  for (int trial = 0; trial < 40; ++trial) {
    const auto now = make_truth(3, 150, 1 + static_cast<std::uint32_t>(below(2)));
    const auto split = best_batches(now, {.initial = 10, .lowest = 10, .highest = 150});
    expect_within_limits(now, split, 10);
    const double ratio = now.goodput(split) / best_of_all(now, 10, 10);
    EXPECT_GE(ratio, 0.9) << trial;
    sum += ratio;
  }
  EXPECT_GE(sum / 40, 0.99);
}

TEST_F(OracleTest, IsBeatenByNoEqualAndNoProportionalSplit) {
  for (int trial = 0; trial < 20; ++trial) {
    const auto now = make_truth(8, 400);
    const cluster::batch limits{.initial = 8, .lowest = 8, .highest = 400};
    const auto best = now.goodput(best_batches(now, limits));
    std::vector<double> speeds;
    for (std::size_t i = 0; i < now.profiles.size(); ++i)
      speeds.push_back(1 / now.slowdown[i].seconds(now.profiles[i]->curve.seconds(100)));
    for (std::uint64_t total = 64; total <= 3200; total += 40) {
      const std::vector<double> equal(8, 1);
      EXPECT_GE(best, slack * now.goodput(policy::split_in_proportion(total, equal, 8, now.highest)));
      EXPECT_GE(best, slack * now.goodput(policy::split_in_proportion(total, speeds, 8, now.highest)));
    }
  }
}

TEST(Truth, CountsSamplesByWhatTheyAreWorth) {
  const auto profile = testing::linear_profile();
  truth now{.profiles = {&profile, &profile}, .slowdown = {1, 2}, .highest = {1024, 1024}};
  now.exchange_seconds = 0.05;
  now.phi = 300;
  now.learning = {.reference_batch = 100};
  const double seconds = 2 * testing::computing_seconds(50) + 0.05;
  EXPECT_DOUBLE_EQ(now.step_seconds(batches{50, 50}), seconds);
  EXPECT_DOUBLE_EQ(now.goodput(batches{50, 50}), 100 / seconds);
  EXPECT_DOUBLE_EQ(now.goodput(batches{150, 50}), 200 / (testing::computing_seconds(150) + 0.05) * 400 / 500);
}

} // namespace
} // namespace dynamix::simulator
