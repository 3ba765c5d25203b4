#include "policy/measured_cluster.hpp"
#include "samples.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace dynamix::policy {
namespace {

constexpr cluster::batch limits{.initial = 64, .lowest = 8, .highest = 1024};
constexpr double exchange_seconds = 0.005;

/// What each host computes for where all of them share two cores. A slow one sleeps after its turn and leaves the cores
/// to the others, so to fill up those that wait for it is not free.
std::vector<double> on_shared_cores(const std::vector<std::uint32_t>& batches, const std::vector<double>& slowdown) {
  constexpr double cores = 2;
  std::vector<double> left;
  for (const auto batch : batches)
    left.push_back(0.01 + 0.001 * batch);
  std::vector<double> seconds(batches.size(), 0);
  double now = 0;
  for (auto active = batches.size(); active > 0;) {
    const auto pace = std::min(1.0, cores / static_cast<double>(active));
    double next = 1e9;
    for (const auto each : left)
      next = each > 0 ? std::min(next, each) : next;
    now += next / pace;
    for (std::size_t i = 0; i < left.size(); ++i)
      if (left[i] > 0 && (left[i] -= next) < 1e-12) {
        left[i] = 0;
        seconds[i] = now * slowdown[i];
        --active;
      }
  }
  return seconds;
}

struct window_run {
  std::uint64_t total = 0;
  double seconds = 0; ///< of a step
  double goodput = 0;
};

/// Forty windows by the plan, from a quarter of the initial batch sizes on. Checks that the newest plan's prediction
/// for what runs has come to what it takes.
std::vector<window_run> run_by_plan(const std::vector<double>& slowdown, double noise_scale) {
  measured_cluster measured(limits);
  std::vector<std::uint32_t> assigned(slowdown.size(), limits.initial / 4);
  std::vector<window_run> ran;
  for (std::uint64_t window = 1; window <= 40; ++window) {
    const auto seconds = on_shared_cores(assigned, slowdown);
    const auto slowest = std::ranges::max(seconds);
    const auto total = std::accumulate(assigned.begin(), assigned.end(), std::uint64_t{0});
    auto shard = testing::make_shard(static_cast<std::uint32_t>(slowdown.size()), window);
    for (auto& report : shard.reports) {
      report.batch = assigned[report.rank];
      report.global_batch = total;
      report.training.compute_seconds = seconds[report.rank];
      report.training.exchange_seconds = exchange_seconds + slowest - seconds[report.rank];
      report.training.iteration_seconds = exchange_seconds + slowest;
      report.training.gradient_valid = true;
      report.training.noise_scale = noise_scale;
    }
    measured.measure(shard);
    const auto step = slowest + exchange_seconds;
    const auto samples = static_cast<double>(total);
    ran.push_back({total, step, samples / step * measured.efficiency(samples)});
    if (window == 40) {
      EXPECT_NEAR(measured.judge(assigned).slowest_seconds / slowest, 1, 0.05);
    }
    assigned = measured.worthwhile(measured.best(), assigned).plan.batches;
  }
  return ran;
}

TEST(SharedCores, APlanComesBackFromBatchesThatTookLongerThanItPredicted) {
  for (const double noise_scale : {60.0, 200.0, 1000.0})
    for (const auto& slowdown : std::vector<std::vector<double>>{
             {1, 1, 1, 1}, {1, 1, 2, 4}, {1, 1, 1, 4}, {1, 4, 4, 4}, {1, 1, 1, 1, 2, 2, 4, 4}}) {
      const auto ran = run_by_plan(slowdown, noise_scale);
      const auto best = std::ranges::max_element(ran, {}, &window_run::goodput);
      EXPECT_GE(ran.back().goodput, 0.95 * best->goodput)
          << "noise scale " << noise_scale << ", " << slowdown.size() << " hosts: " << ran.back().total << " in "
          << ran.back().seconds << " s, and " << best->total << " in " << best->seconds << " s in window "
          << best - ran.begin() + 1;
    }
}

TEST(SharedCores, APlanPredictsForALargerBatchWhatThatHasTaken) {
  measured_cluster measured(limits);
  std::uint64_t window = 0;
  const auto run = [&](std::uint32_t batch, double seconds) {
    auto shard = testing::make_shard(2, ++window);
    for (auto& report : shard.reports) {
      report.batch = batch;
      report.global_batch = 2 * batch;
      report.training.compute_seconds = seconds;
      report.training.iteration_seconds = seconds;
      report.training.exchange_seconds = 0;
    }
    measured.measure(shard);
  };
  run(32, 0.2);
  const auto predicted = measured.judge({64, 64}).slowest_seconds;
  EXPECT_NEAR(predicted, 0.3, 0.01);
  run(64, 0.49);
  EXPECT_NEAR(measured.judge({64, 64}).slowest_seconds, 0.49, 0.01);
  EXPECT_NEAR(measured.judge({32, 32}).slowest_seconds, 0.2, 0.01) << "what a smaller one takes has not changed";
  run(32, 0.2);
  EXPECT_NEAR(measured.judge({64, 64}).slowest_seconds, 0.49, 0.01) << "also when the smaller one runs again";
}

} // namespace
} // namespace dynamix::policy
