#include "policy/balance.hpp"
#include "storage/splitmix64.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>

namespace dynamix::policy {
namespace {

using batches = std::vector<std::uint32_t>;
using testing::ElementsAre;

balanced_worker worker(double sample_seconds, std::uint32_t batch, double error = 0, double fixed_seconds = 0) {
  return {.pace = {.fixed_seconds = fixed_seconds, .sample_seconds = sample_seconds, .error = error},
          .batch = batch,
          .lowest = 1,
          .highest = 1000};
}

double uniform(storage::splitmix64& random) {
  return static_cast<double>(random.next() >> 11U) * 0x1p-53;
}

double normal(storage::splitmix64& random) {
  return std::sqrt(-2 * std::log(1 - uniform(random))) * std::cos(6.283185307179586 * uniform(random));
}

std::uint64_t total_of(const batches& of) {
  return std::accumulate(of.begin(), of.end(), std::uint64_t{0});
}

/// Seconds of the best split, by trying all of two workers.
double best_of_two(std::uint64_t total, const std::vector<balanced_worker>& workers) {
  double best = INFINITY;
  for (std::uint32_t first = workers[0].lowest; first <= workers[0].highest; ++first) {
    const auto second = static_cast<std::int64_t>(total) - first;
    if (second < workers[1].lowest || second > workers[1].highest)
      continue;
    const auto seconds = [&](std::size_t i, double batch) {
      return workers[i].pace.fixed_seconds + batch * workers[i].pace.sample_seconds;
    };
    best = std::min(best, std::max(seconds(0, first), seconds(1, static_cast<double>(second))));
  }
  return best;
}

TEST(Balance, GivesWorkersWhatTheyComputeInTheSameTime) {
  const std::vector workers{worker(1e-3, 100), worker(4e-3, 100)};
  const auto next = balance(200, workers);
  EXPECT_THAT(next.batches, ElementsAre(160, 40));
  EXPECT_EQ(next.reason, balance_reason::moved);
  EXPECT_DOUBLE_EQ(next.slowest_seconds, 0.16);
}

TEST(Balance, IsTheBestSplitThereIs) {
  storage::splitmix64 random(3);
  for (int i = 0; i < 2000; ++i) {
    std::vector<balanced_worker> workers;
    for (int each = 0; each < 2; ++each) {
      auto one = worker(1e-3 * std::exp(2 * normal(random)), 1 + static_cast<std::uint32_t>(random.below(200)), 0,
                        0.05 * uniform(random));
      one.lowest = 1 + static_cast<std::uint32_t>(random.below(20));
      one.highest = one.lowest + static_cast<std::uint32_t>(random.below(300));
      workers.push_back(one);
    }
    const auto low = workers[0].lowest + workers[1].lowest;
    const auto total = low + random.below(workers[0].highest + workers[1].highest - low + 1);
    const auto next = balance(total, workers);
    ASSERT_EQ(total_of(next.batches), total);
    for (std::size_t each = 0; each < 2; ++each) {
      ASSERT_GE(next.batches[each], workers[each].lowest);
      ASSERT_LE(next.batches[each], workers[each].highest);
    }
    const auto a_sample = std::max(workers[0].pace.sample_seconds, workers[1].pace.sample_seconds);
    ASSERT_LE(next.slowest_seconds, 1.0201 * best_of_two(total, workers) + a_sample) << "case " << i;
  }
}

/// In most steps the best shares are not looked for, which must not show.
TEST(Balance, KeepsSharesExactlyWhileTheBestAreNotNoticeablyFaster) {
  storage::splitmix64 random(7);
  std::map<balance_reason, int> seen;
  for (int i = 0; i < 3000; ++i) {
    std::vector<balanced_worker> workers;
    const auto count = 2 + random.below(40);
    const double spread = random.below(2) == 0 ? 0.02 : 0.7;
    for (std::size_t each = 0; each < count; ++each) {
      auto one = worker(1e-3 * std::exp(spread * normal(random)), 0, 0, 0.01 * uniform(random));
      one.lowest = static_cast<std::uint32_t>(random.below(40));
      workers.push_back(one);
    }
    const auto total = 64 * count + random.below(count);
    const auto slowest = [&](const batches& of) {
      double seconds = 0;
      for (std::size_t each = 0; each < count; ++each)
        seconds = std::max(seconds, workers[each].pace.fixed_seconds + of[each] * workers[each].pace.sample_seconds);
      return seconds;
    };
    // All to the last, from which shares mostly move to the best that there are.
    workers.back().batch = static_cast<std::uint32_t>(total);
    const auto searched = balance(total, workers);
    if (searched.reason == balance_reason::kept) // what was made to fit was good enough
      continue;
    const bool evens = searched.reason == balance_reason::evened;
    const auto best = slowest(searched.batches);
    batches even(count, static_cast<std::uint32_t>(total / count));
    for (std::size_t each = 0; each < total % count; ++each)
      ++even[each];
    auto held = random.below(3) == 0 ? even : searched.batches;
    for (std::size_t moves = random.below(6); moves > 0; --moves) {
      const auto from = random.below(count);
      if (held[from] <= workers[from].lowest)
        continue;
      --held[from];
      ++held[random.below(count)];
    }
    for (std::size_t each = 0; each < count; ++each)
      workers[each].batch = held[each];
    const auto next = balance(total, workers);
    const bool is_even = held == even;
    const bool stays = is_even ? evens || slowest(held) <= 1.02 * best : !evens && slowest(held) <= 1.005 * best;
    const auto expected = stays ? balance_reason::kept : evens ? balance_reason::evened : balance_reason::moved;
    ASSERT_EQ(next.reason, expected) << "case " << i;
    ASSERT_EQ(next.batches, stays ? held : searched.batches) << "case " << i;
    ++seen[next.reason];
  }
  EXPECT_GT(seen[balance_reason::kept], 100);
  EXPECT_GT(seen[balance_reason::moved], 100);
  EXPECT_GT(seen[balance_reason::evened], 0);
}

TEST(Balance, KeepsTheGlobalBatchWhateverTheSharesAndAsFarAsBoundsAllow) {
  storage::splitmix64 random(5);
  for (int i = 0; i < 500; ++i) {
    std::vector<balanced_worker> workers;
    std::uint64_t least = 0;
    std::uint64_t most = 0;
    for (std::size_t each = 0; each < 1 + random.below(70); ++each) {
      auto one = worker(std::exp(3 * normal(random)), static_cast<std::uint32_t>(random.below(100)), uniform(random),
                        normal(random));
      one.lowest = static_cast<std::uint32_t>(random.below(10));
      one.highest = one.lowest + static_cast<std::uint32_t>(random.below(100));
      if (random.below(9) == 0)
        one.pace = {};
      workers.push_back(one);
      least += one.lowest;
      most += one.highest;
    }
    const auto total = random.below(most + 100);
    ASSERT_EQ(total_of(balance(total, workers).batches), std::clamp<std::uint64_t>(total, least, most)) << "case " << i;
  }
}

TEST(Balance, LeavesEvenSharesOnlyForAGainThatSomebodyWouldNotice) {
  EXPECT_EQ(balance(200, std::vector{worker(1e-3, 100), worker(1.03e-3, 100)}).reason, balance_reason::kept);
  EXPECT_EQ(balance(200, std::vector{worker(1e-3, 100), worker(1.05e-3, 100)}).reason, balance_reason::moved);
}

TEST(Balance, KeepsSharesWhereAStepsCostDoesNotDependOnThem) {
  // A step of 2.5 ms of which samples cost microseconds: any split takes as long.
  const std::vector workers{worker(1e-7, 32, 0.02, 2.5e-3), worker(3e-7, 32, 0.02, 2.5e-3)};
  EXPECT_THAT(balance(64, workers).batches, ElementsAre(32, 32));
}

TEST(Balance, EvensSharesOutOnceNobodyIsSlower) {
  const auto next = balance(200, std::vector{worker(1e-3, 160), worker(1e-3, 40)});
  EXPECT_THAT(next.batches, ElementsAre(100, 100));
  EXPECT_EQ(next.reason, balance_reason::evened);
}

TEST(Balance, DoesNotFollowWhatChanceExplains) {
  // 1.3 times as slow, by measurements that are each good to a quarter.
  EXPECT_EQ(balance(200, std::vector{worker(1e-3, 100, 0.25), worker(1.3e-3, 100, 0.25)}).reason, balance_reason::kept);
  EXPECT_EQ(balance(200, std::vector{worker(1e-3, 100, 0.02), worker(1.3e-3, 100, 0.02)}).reason,
            balance_reason::moved);
}

TEST(Balance, KeepsProportionsWhileSomebodyIsNotMeasured) {
  auto unknown = worker(1e-3, 20);
  unknown.pace = {};
  const std::vector workers{worker(1e-3, 60), unknown};
  EXPECT_THAT(balance(80, workers).batches, ElementsAre(60, 20));
  EXPECT_THAT(balance(160, workers).batches, ElementsAre(120, 40));
}

/// Workers that measure themselves step after step, and share by what they have told.
struct simulated_workers {
  std::vector<pace_tracker> paces;
  batches shares;

  explicit simulated_workers(std::size_t count, std::uint32_t batch) : paces(count), shares(count, batch) {}
  /// A step in which worker i takes `seconds(i)` a sample. Returns how long it lasts.
  template <class Seconds>
  double step(Seconds seconds) {
    std::vector<balanced_worker> told;
    double slowest = 0;
    for (std::size_t i = 0; i < paces.size(); ++i) {
      const double taken = shares[i] * seconds(i);
      slowest = std::max(slowest, taken);
      paces[i].measure(shares[i], taken);
      told.push_back({.pace = paces[i].estimate(shares[i]), .batch = shares[i], .lowest = 1, .highest = 100'000});
    }
    shares = balance(total_of(shares), told).batches;
    return slowest;
  }
};

TEST(Balance, StaysEvenWhereEachStepHasAnImbalanceOfItsOwn) {
  // As sequences of unequal length make it: nothing in a step says anything of the next one.
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    storage::splitmix64 random(seed);
    simulated_workers all(32, 64);
    double shared = 0;
    double even = 0;
    for (int step = 0; step < 200; ++step) {
      std::vector<double> seconds(32);
      for (auto& each : seconds)
        each = std::exp(0.25 * normal(random));
      even += 64 * std::ranges::max(seconds);
      shared += all.step([&](std::size_t i) { return seconds[i]; });
    }
    EXPECT_LE(shared, 1.01 * even) << "seed " << seed;
  }
}

TEST(Balance, FollowsASlowWorkerWithinThreeSteps) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    storage::splitmix64 random(seed);
    simulated_workers all(4, 64);
    const auto step = [&](double slowness) {
      return all.step([&](std::size_t i) { return (i == 2 ? slowness : 1) * std::exp(0.03 * normal(random)); });
    };
    for (int i = 0; i < 30; ++i)
      step(1);
    EXPECT_LE(std::ranges::max(all.shares), 1.5 * std::ranges::min(all.shares)) << "equal workers, seed " << seed;
    int slow_steps = 0;
    while (slow_steps < 20 && step(4) > 1.2 * 256 / 3.25)
      ++slow_steps;
    EXPECT_LE(slow_steps, 3) << "seed " << seed;
    int fast_steps = 0;
    while (fast_steps < 20 && step(1) > 1.2 * 64)
      ++fast_steps;
    EXPECT_LE(fast_steps, 6) << "seed " << seed;
  }
}

/// As a checkpoint or an evaluation by one of them makes a step long.
TEST(Balance, KeepsEqualWorkersNearEvenWhereOnePausesNowAndThen) {
  for (const std::size_t count : {2, 4})
    for (const int period : {5, 20, 100})
      for (const double factor : {2.0, 10.0, 1000.0})
        for (const double noise : {0.02, 0.1, 0.25})
          for (std::uint64_t seed = 1; seed <= 10; ++seed) {
            storage::splitmix64 random(seed);
            simulated_workers all(count, 32);
            int uneven = 0;
            std::uint32_t most = 0;
            for (int i = 1; i <= 1000; ++i) {
              all.step([&](std::size_t at) {
                const double usual = (4e-3 / all.shares[at] + 1e-3) * std::exp(noise * normal(random));
                return at == 0 && i % period == 0 ? factor * usual : usual;
              });
              most = std::max(most, std::ranges::max(all.shares));
              uneven += std::ranges::max(all.shares) > 1.5 * std::ranges::min(all.shares) ? 1 : 0;
            }
            EXPECT_LE(uneven, 50) << count << " workers, " << factor << " times as long in each " << period
                                  << "th step, noise " << noise << ", seed " << seed;
            EXPECT_LE(most, 64U) << count << " workers, each " << period << "th step, factor " << factor;
          }
}

TEST(Balance, KeepsEqualWorkersWithinHalfAsMuchAgainWhateverTheirSteps) {
  for (const double step_seconds : {1e-3, 1e-2, 1.0})
    for (const double noise : {0.02, 0.1, 0.3})
      for (std::uint64_t seed = 1; seed <= 5; ++seed) {
        storage::splitmix64 random(seed);
        simulated_workers all(2, 32);
        int uneven = 0;
        for (int i = 0; i < 400; ++i) {
          all.step([&](std::size_t at) { // half of a step does not depend on its batch
            return step_seconds * (0.5 / all.shares[at] + 0.5 / 32) * std::exp(noise * normal(random));
          });
          uneven += std::ranges::max(all.shares) > 1.5 * std::ranges::min(all.shares) ? 1 : 0;
        }
        EXPECT_LE(uneven, 20) << "steps of " << step_seconds << " s, noise " << noise << ", seed " << seed;
      }
}

} // namespace
} // namespace dynamix::policy
