#include "policy/rivals.hpp"
#include "policy/water_filling.hpp"
#include "samples.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <numeric>
#include <random>

/// The controllers against four toy hosts whose decisions come into force two windows after the one decided on.
namespace dynamix::policy {
namespace {

using batches = std::vector<std::uint32_t>;

constexpr cluster::batch limits{.initial = 64, .lowest = 8, .highest = 1024};
constexpr double exchange_seconds = 0.01;
constexpr double noise_scale = 2000;

std::uint64_t sum(const batches& values) {
  return std::accumulate(values.begin(), values.end(), std::uint64_t{0});
}

/// Hosts that compute (fixed + a sample's seconds * batch) / speed.
struct hosts {
  std::vector<double> speeds = {1, 1, 0.5, 0.25};
  double fixed_seconds = 0.002;
  double sample_seconds = 0.0002;

  double seconds(std::size_t host, std::uint32_t batch) const {
    return (fixed_seconds + sample_seconds * batch) / speeds[host];
  }
  double slowest(const batches& split) const {
    double longest = 0;
    for (std::size_t i = 0; i < split.size(); ++i)
      longest = std::max(longest, seconds(i, split[i]));
    return longest;
  }
  batches best_split(std::uint64_t total) const {
    std::vector<capacity> workers;
    for (const auto speed : speeds)
      workers.emplace_back(
          [this, speed](double seconds) { return std::max(0.0, (seconds * speed - fixed_seconds) / sample_seconds); });
    return water_fill(total, workers, limits.lowest, batches(workers.size(), limits.highest));
  }
  double goodput(const batches& split) const {
    const auto total = static_cast<double>(sum(split));
    return total / (slowest(split) + exchange_seconds) * (noise_scale + 256) / (noise_scale + total);
  }
  double best_goodput() const {
    double best = 0;
    for (std::uint64_t total = 256; total <= 4096; ++total)
      best = std::max(best, goodput(best_split(total)));
    return best;
  }
};

/// Share of the global batch that lies with another host than in the best split.
double misplaced(const hosts& machines, const batches& split) {
  const auto best = machines.best_split(sum(split));
  double moved = 0;
  for (std::size_t i = 0; i < split.size(); ++i)
    moved += std::abs(static_cast<double>(split[i]) - best[i]) / 2;
  return moved / static_cast<double>(sum(split));
}

class closed_loop {
public:
  closed_loop(testing::measured_controller decider, double jitter) : decider_(std::move(decider)), jitter_(jitter) {}

  /// Runs one window and decides on it. Returns the batch sizes that were in force.
  batches run(const hosts& machines) {
    const auto in_force = pipeline_.front();
    auto shard = testing::make_shard(static_cast<std::uint32_t>(in_force.size()), ++window_);
    std::uniform_real_distribution<double> factor(1 - jitter_, 1 + jitter_);
    double longest = 0;
    for (std::size_t i = 0; i < in_force.size(); ++i) {
      auto& training = shard.reports[i].training;
      shard.reports[i].batch = in_force[i];
      shard.reports[i].global_batch = sum(in_force);
      training.compute_seconds = machines.seconds(i, in_force[i]) * factor(generator_);
      training.gradient_valid = true;
      training.noise_scale = noise_scale * factor(generator_);
      longest = std::max(longest, training.compute_seconds);
    }
    for (auto& report : shard.reports)
      report.training.exchange_seconds = exchange_seconds + longest - report.training.compute_seconds;
    batches decided;
    for (const auto& each : decider_.decide(shard, pipeline_.back())) {
      EXPECT_TRUE(each.batch >= limits.lowest && each.batch <= limits.highest);
      decided.push_back(each.batch);
    }
    pipeline_.push_back(decided);
    pipeline_.pop_front();
    return in_force;
  }

private:
  testing::measured_controller decider_;
  double jitter_;
  std::mt19937_64 generator_{17};
  std::uint64_t window_ = 0;
  std::deque<batches> pipeline_ = std::deque<batches>(2, batches(4, limits.initial)); ///< in force, and next
};

class InTheLoop : public ::testing::TestWithParam<cluster::policy_kind> {
protected:
  testing::measured_controller make() const {
    auto file = testing::make_file(GetParam());
    file.batch = limits;
    return testing::make_measured(file);
  }
  /// In force near the optimum, from now on for 60 windows.
  void expect_near_the_best(closed_loop& loop, const hosts& machines) const {
    const auto best_goodput = machines.best_goodput();
    for (int window = 0; window < 60; ++window) {
      const auto split = loop.run(machines);
      const auto best = machines.best_split(sum(split));
      ASSERT_LE(misplaced(machines, split), 0.1) << window << ": " << ::testing::PrintToString(split);
      ASSERT_LE(machines.slowest(split), 1.1 * machines.slowest(best)) << window;
      if (GetParam() == cluster::policy_kind::goodput)
        ASSERT_GE(machines.goodput(split), 0.95 * best_goodput) << window;
      else
        ASSERT_EQ(sum(split), 256U);
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Rivals, InTheLoop,
                         ::testing::Values(cluster::policy_kind::lb_bsp, cluster::policy_kind::omnilearn,
                                           cluster::policy_kind::goodput));

constexpr int windows_to_settle = 24;

TEST_P(InTheLoop, ConvergesAndStays) {
  const hosts machines;
  closed_loop loop(make(), 0);
  EXPECT_GT(misplaced(machines, loop.run(machines)), 0.2) << "the beginning is far from the best";
  for (int window = 0; window < windows_to_settle; ++window)
    loop.run(machines);
  expect_near_the_best(loop, machines);
  const auto settled = loop.run(machines);
  for (int window = 0; window < 10; ++window)
    EXPECT_EQ(loop.run(machines), settled) << "swings about the optimum";
}

TEST_P(InTheLoop, ConvergesAgainAfterAChangeOfSpeed) {
  hosts machines;
  closed_loop loop(make(), 0);
  for (int window = 0; window < 60; ++window)
    loop.run(machines);
  machines.speeds = {0.3, 1, 0.5, 1};
  EXPECT_GT(misplaced(machines, loop.run(machines)), 0.2);
  for (int window = 0; window < windows_to_settle; ++window)
    loop.run(machines);
  expect_near_the_best(loop, machines);
}

TEST_P(InTheLoop, ConvergesAlthoughTheMeasurementsJitter) {
  const hosts machines;
  closed_loop loop(make(), 0.02);
  for (int window = 0; window < windows_to_settle; ++window)
    loop.run(machines);
  expect_near_the_best(loop, machines);
}

} // namespace
} // namespace dynamix::policy
