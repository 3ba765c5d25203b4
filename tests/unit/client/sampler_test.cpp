#include "client/lockstep.hpp"
#include "client/random.hpp"
#include "client/sampler.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace dynamix::client {
namespace {

std::vector<std::uint32_t> random_batches(splitmix64& random, std::size_t world) {
  std::vector<std::uint32_t> batches(world);
  for (auto& batch : batches)
    batch = random.below(4) == 0 ? 0 : 1 + random.below(96);
  if (std::ranges::all_of(batches, [](auto batch) { return batch == 0; }))
    batches[random.below(static_cast<std::uint32_t>(world))] = 1;
  return batches;
}

TEST(StepSeed, DiffersForEverySeedStepAndRank) {
  std::set<std::uint64_t> seen;
  for (std::uint64_t seed = 0; seed < 4; ++seed)
    for (std::uint64_t step = 0; step < 100; ++step)
      for (std::uint32_t rank = 0; rank < 8; ++rank)
        seen.insert(step_seed(seed, step, rank));
  EXPECT_EQ(seen.size(), 4U * 100 * 8);
}

TEST(Sampler, UsesEverySampleOnceAnEpochUnder200RandomSchedules) {
  splitmix64 random(11);
  for (int schedule = 0; schedule < 200; ++schedule) {
    const std::uint64_t samples = 1 + random.below(3000);
    const std::size_t world = 1 + random.below(8);
    sampler dealer(random.next(), samples);
    for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
      std::vector<int> used(samples, 0);
      for (bool ended = false; !ended;) {
        const auto batches = random_batches(random, world);
        const auto dealt = dealer.deal(batches);
        ASSERT_EQ(dealt.epoch, epoch);
        ASSERT_EQ(dealt.ranges.size(), world);
        for (std::size_t rank = 0; rank < world; ++rank) {
          ASSERT_LE(dealt.ranges[rank].count, batches[rank]);
          if (!dealt.ends_epoch) {
            ASSERT_EQ(dealt.ranges[rank].count, batches[rank]);
          }
          for (const auto sample : dealer.samples_of(dealt.ranges[rank]))
            ++used.at(sample);
        }
        ended = dealt.ends_epoch;
      }
      ASSERT_TRUE(std::ranges::all_of(used, [](int times) { return times == 1; })) << "schedule " << schedule;
      ASSERT_EQ(dealer.position(), (sampler_position{epoch + 1, 0}));
    }
  }
}

TEST(Sampler, KeepsTheOrderOfTheSamplesUnlessAsked) {
  sampler dealer(1, 100, false);
  for (std::uint32_t next = 0; next < 200;) {
    const auto dealt = dealer.deal(std::vector<std::uint32_t>{7, 3});
    for (const auto range : dealt.ranges)
      for (const auto sample : dealer.samples_of(range))
        ASSERT_EQ(sample, next++ % 100);
  }
}

TEST(Sampler, SplitsTheEndOfAnEpochInProportion) {
  sampler dealer(1, 105);
  const std::vector<std::uint32_t> batches{50, 25, 25};
  EXPECT_FALSE(dealer.deal(batches).ends_epoch);
  const auto last = dealer.deal(batches);
  EXPECT_TRUE(last.ends_epoch);
  EXPECT_EQ(last.samples, 5U);
  EXPECT_EQ(last.ranges, (std::vector<index_range>{{100, 3}, {103, 1}, {104, 1}}));
}

TEST(Sampler, DealsNothingAndStaysWhenNobodyAsks) {
  sampler dealer(1, 10);
  dealer.deal(std::vector<std::uint32_t>{4});
  const auto nothing = dealer.deal(std::vector<std::uint32_t>{0, 0});
  EXPECT_EQ(nothing.samples, 0U);
  EXPECT_FALSE(nothing.ends_epoch);
  EXPECT_EQ(dealer.position(), (sampler_position{0, 4}));
}

TEST(Sampler, ResumesInMidEpochWithExactlyTheSamplesThatFollow) {
  const std::vector<std::uint32_t> batches{7, 0, 13, 5};
  sampler whole(99, 1000);
  for (int step = 0; step < 55; ++step)
    whole.deal(batches);
  sampler resumed(99, 1000);
  ASSERT_TRUE(resumed.restore(whole.position()));
  ASSERT_EQ(resumed.position(), (sampler_position{1, 375}));
  for (int step = 0; step < 100; ++step) {
    const auto expected = whole.deal(batches);
    const auto dealt = resumed.deal(batches);
    ASSERT_EQ(dealt.ranges, expected.ranges);
    for (std::size_t rank = 0; rank < batches.size(); ++rank)
      ASSERT_TRUE(std::ranges::equal(resumed.samples_of(dealt.ranges[rank]), whole.samples_of(expected.ranges[rank])));
  }
}

TEST(Sampler, RefusesAPositionOutsideAnEpoch) {
  sampler dealer(1, 10);
  dealer.deal(std::vector<std::uint32_t>{4});
  EXPECT_FALSE(dealer.restore({0, 10}));
  EXPECT_EQ(dealer.position(), (sampler_position{0, 4}));
}

TEST(Sampler, ShufflesEachEpochAndSeedDifferently) {
  const auto first_epoch = [](std::uint64_t seed, std::uint64_t epoch) {
    sampler dealer(seed, 500);
    dealer.restore({epoch, 0});
    const auto samples = dealer.samples_of({0, 500});
    return std::vector<std::uint32_t>(samples.begin(), samples.end());
  };
  std::vector<std::uint32_t> sorted(500);
  std::iota(sorted.begin(), sorted.end(), 0U);
  EXPECT_NE(first_epoch(1, 0), sorted);
  EXPECT_NE(first_epoch(1, 0), first_epoch(1, 1));
  EXPECT_NE(first_epoch(1, 0), first_epoch(2, 0));
}

TEST(Lockstep, KnowsTheNextSamplesWhereNoBatchSizeChanges) {
  const std::vector<member_batch> two = {{.initial = 8}, {.initial = 5}};
  lockstep steps({.position = 1, .members = two, .samples = 100, .seed = 7});
  // Both members have been decided on, from the next step on that nobody has dealt.
  auto decide = [&, window = std::uint64_t{0}](std::uint32_t first, std::uint32_t second) mutable {
    ++window;
    const auto holding = [&](std::uint32_t batch) {
      return std::array<messages::decision, 2>{messages::decision{.key = {1, window}, .batch = batch}};
    };
    auto other = steps.write_row(holding(second), session::step_request::none, 1, 0);
    std::vector<step_row> rows{other, other};
    rows[0].held = holding(first);
    session::agreement agreed;
    EXPECT_EQ(steps.read_rows(rows, agreed), "");
    EXPECT_TRUE(agreed.key);
  };
  for (int epoch = 0; epoch < 2; ++epoch) {
    steps.start_epoch();
    std::vector<std::uint32_t> likely;
    dealt_step dealt;
    for (int step = 0; steps.deal(dealt) == deal_verdict::dealt; ++step) {
      const auto own = steps.samples().first(dealt.own.count);
      if (step > 0) {
        EXPECT_EQ(std::ranges::equal(own, likely), step != 4) << step;
      }
      likely.assign(steps.likely_samples().begin(), steps.likely_samples().end());
      EXPECT_EQ(likely.empty(), dealt.ends_epoch);
      steps.deliver();
      if (step == 3)
        decide(4, 6);
      if (dealt.ends_epoch)
        decide(8, 5);
      steps.rate(0);
      steps.complete(false);
    }
  }
}

/// Where members choose the global batch, what an arbitrator repeats of their reports is old by the time that it comes.
TEST(Lockstep, TakesNoBatchOfADecisionWhereMembersChooseTheGlobalBatch) {
  for (const auto balances : {messages::balancing::shares, messages::balancing::all}) {
    lockstep steps({.members = {{.initial = 16}, {.initial = 16}}, .samples = 1000, .balances = balances});
    steps.start_epoch();
    dealt_step dealt;
    steps.deal(dealt);
    steps.deliver();
    const auto holding = [](std::uint32_t batch) {
      return std::array<messages::decision, 2>{messages::decision{.key = {1, 1}, .batch = batch}};
    };
    std::vector<step_row> rows(2, steps.write_row(holding(40), session::step_request::none, 16, 1));
    rows[1].held = holding(20);
    session::agreement agreed;
    ASSERT_EQ(steps.read_rows(rows, agreed), "");
    ASSERT_TRUE(agreed.key) << "it counts as applied all the same";
    EXPECT_EQ(steps.newest_batches().key, *agreed.key);
    const bool chosen = balances == messages::balancing::all;
    EXPECT_EQ(steps.newest_batches().batches,
              (chosen ? std::vector<std::uint32_t>{16, 16} : std::vector<std::uint32_t>{40, 20}));
  }
}

} // namespace
} // namespace dynamix::client
