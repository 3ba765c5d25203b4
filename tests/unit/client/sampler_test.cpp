#include "client/lockstep.hpp"
#include "client/random.hpp"
#include "client/sampler.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <set>

namespace dynamix::client {
namespace {

TEST(StepSeed, DiffersForEverySeedStepAndRank) {
  std::set<std::uint64_t> seen;
  for (std::uint64_t seed = 0; seed < 4; ++seed)
    for (std::uint64_t step = 0; step < 100; ++step)
      for (std::uint32_t rank = 0; rank < 8; ++rank)
        seen.insert(step_seed(seed, step, rank));
  EXPECT_EQ(seen.size(), 4U * 100 * 8);
}

TEST(Sampler, ShufflesEachEpochAndSeedDifferentlyAndEachTimeAlike) {
  const auto numbers = [](std::uint64_t seed, std::uint64_t epoch) {
    sampler order(seed, {500});
    return order.numbers_of(epoch, order.items_of(epoch));
  };
  auto first = numbers(1, 0);
  EXPECT_EQ(first, numbers(1, 0));
  EXPECT_NE(first, numbers(1, 1));
  EXPECT_NE(first, numbers(2, 0));
  std::vector<std::uint32_t> sorted(500);
  std::iota(sorted.begin(), sorted.end(), 0U);
  EXPECT_NE(first, sorted);
  std::ranges::sort(first);
  EXPECT_EQ(first, sorted);
}

TEST(Sampler, KeepsTheOrderOfTheSamplesUnlessAsked) {
  sampler order(1, {100}, false);
  EXPECT_EQ(order.items_of(3, 40), (std::vector<item_range>{{0, 40, 100}}));
  EXPECT_EQ(order.numbers_of(3, std::vector<item_range>{{0, 41, 43}, {0, 7, 8}}),
            (std::vector<std::uint32_t>{41, 42, 7}));
}

TEST(Sampler, ShufflesTheShardsOfAStreamAndLeavesOutEmptyOnes) {
  const std::vector<std::uint64_t> lengths{0, 3, 0, 5, 7, 1};
  sampler ordered(1, lengths, false, true);
  EXPECT_EQ(ordered.items_of(0), (std::vector<item_range>{{1, 0, 3}, {3, 0, 5}, {4, 0, 7}, {5, 0, 1}}));
  EXPECT_EQ(ordered.stand_in(), (item_range{1, 0, 1}));
  sampler shuffled(1, lengths, true, true);
  std::set<std::vector<std::uint64_t>> orders;
  for (std::uint64_t epoch = 0; epoch < 20; ++epoch) {
    std::vector<std::uint64_t> shards;
    for (const auto& range : shuffled.items_of(epoch)) {
      EXPECT_EQ(range.size(), lengths[range.shard]);
      shards.push_back(range.shard);
    }
    EXPECT_EQ(shards.size(), 4U);
    orders.insert(shards);
  }
  EXPECT_GT(orders.size(), 5U);
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
      const auto numbers = steps.samples();
      const auto own = std::span(numbers).first(dealt.own);
      if (step > 0) {
        EXPECT_EQ(std::ranges::equal(own, likely), step != 4) << step;
      }
      likely = steps.likely_samples();
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

TEST(Lockstep, MeasuresTheNoiseOfWhatWasDeliveredWhenTheRowWasWritten) {
  const std::vector<member_batch> two(2, {.initial = 8});
  std::vector<std::unique_ptr<lockstep>> steps;
  for (std::uint32_t member = 0; member < 2; ++member) {
    steps.push_back(
        std::make_unique<lockstep>(lockstep_options{.position = member, .members = two, .samples = 1000, .seed = 7}));
    steps[member]->start_epoch();
    dealt_step dealt;
    for (int i = 0; i < 18; ++i) // a loader has fetched ahead
      ASSERT_EQ(steps[member]->deal(dealt), deal_verdict::dealt);
  }
  for (int i = 0; i < 9; ++i) { // of two passes a step the first is measured, in the fourth step nothing is
    const bool measured = i != 3;
    std::vector<step_row> rows;
    for (auto& each : steps) {
      each->deliver();
      rows.push_back(each->write_row({}, session::step_request::none, 8, measured ? 3 : NAN));
      each->deliver();
    }
    session::agreement agreed;
    for (auto& each : steps) {
      ASSERT_EQ(each->read_rows(rows, agreed), "");
      each->rate(measured ? 2 : 0);
      each->complete(false);
    }
  }
  EXPECT_TRUE(steps[0]->noise().valid);
  EXPECT_NEAR(steps[0]->noise().noise_scale, 32, 1e-9);
  EXPECT_EQ(steps[0]->reached().noise.state().steps, 8U);
}

} // namespace
} // namespace dynamix::client
