// Many members in one process: what each derives by itself must be the same on all, whatever their data loaders fetch.

#include "tests/unit/client/lockstep_members.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dynamix::client {
namespace {

using session::step_request;

TEST(Lockstep, DealsEachSampleOnceAnEpochUnderAnyPlanAndLookAhead) {
  storage::splitmix64 random(11);
  std::uint64_t changes = 0;
  int alone = 0;
  int accumulating = 0;
  int short_epochs = 0;
  for (int plan = 0; plan < 1000; ++plan) {
    const auto world = 1 + random.below(8);
    const auto batches_a_step = random.below(3) == 0 ? 2 + random.below(4) : 1;
    const bool each_synchronised = random.below(2) == 0;
    std::vector<member_batch> batches(world);
    std::vector<std::uint32_t> ahead;
    for (auto& batch : batches) {
      batch.initial = 1 + random.below(20);
      ahead.push_back(random.below(5) * random.below(5)); // loader workers, batches ahead in each
    }
    const auto samples = 1 + random.below(400);
    const auto leased = random.below(2) == 0 ? 0 : 1 + random.below(9);
    members all(batches, samples, ahead, false, random.next(), leased, random_balancing(random));
    const auto state_size = all.first().save().size();
    for (int epoch = 0; epoch < 3; ++epoch) {
      all.start_epoch();
      const auto before = all.first().step();
      while (all.step(batches_a_step, each_synchronised)) {
        ASSERT_EQ(all.first().save().size(), state_size) << "plan " << plan;
        if (random.below(3) == 0)
          all.decide_all();
      }
      ASSERT_EQ(all.seen().size(), samples) << "plan " << plan;
      for (const auto& [number, times] : all.seen())
        ASSERT_EQ(times, 1) << "sample " << number << " in plan " << plan;
      ASSERT_EQ(all.first().position(), (sampler_position{static_cast<std::uint64_t>(epoch) + 1, 0}));
      short_epochs += all.first().step() - before < *std::ranges::max_element(ahead) ? 1 : 0;
    }
    changes += all.changes();
    alone += world == 1 ? 1 : 0;
    accumulating += batches_a_step > 1 ? 1 : 0;
  }
  EXPECT_GT(changes, 1000U);
  EXPECT_GT(alone, 100);
  EXPECT_GT(accumulating, 300);
  EXPECT_GT(short_epochs, 300);
}

/// `world` members with batches of 1 to 20 samples that fetch 0 to 6 batches ahead.
std::unique_ptr<members> random_members(storage::splitmix64& random, std::uint32_t world, std::uint64_t samples,
                                        bool drop_last = false) {
  std::vector<member_batch> batches(world);
  std::vector<std::uint32_t> ahead;
  for (auto& batch : batches) {
    batch.initial = 1 + random.below(20);
    ahead.push_back(random.below(7));
  }
  return std::make_unique<members>(std::move(batches), samples, std::move(ahead), drop_last, random.next(),
                                   random.below(6));
}

TEST(Lockstep, DropsOnlyWhatFillsNoStep) {
  storage::splitmix64 random(12);
  for (int plan = 0; plan < 200; ++plan) {
    const auto samples = 1 + random.below(400);
    const auto all = random_members(random, 1 + random.below(5), samples, true);
    for (int epoch = 0; epoch < 3; ++epoch) {
      all->start_epoch();
      const auto promised = all->first().epoch_steps();
      const auto changes = all->changes();
      const bool changes_ahead = all->first().newest_batches().from_step > all->first().step();
      const auto before = all->first().step();
      std::uint64_t total = 0;
      while (all->step()) {
        total = all->first().batches_at(all->first().step() - 1).total();
        if (random.below(6) == 0)
          all->decide_all();
      }
      ASSERT_GT(total, 0U) << "an epoch without a step, plan " << plan;
      const auto seen = all->seen().size();
      for (const auto& [number, times] : all->seen())
        ASSERT_EQ(times, 1);
      ASSERT_TRUE(seen == samples || samples - seen < all->first().batches_at(all->first().step()).total());
      ASSERT_EQ(all->first().position().epoch, static_cast<std::uint64_t>(epoch) + 1) << "plan " << plan;
      if (changes == all->changes() && !changes_ahead) {
        ASSERT_EQ(all->first().step() - before, promised) << "plan " << plan;
      }
    }
  }
}

TEST(Lockstep, UsesEachSampleOnceAnEpochWhileMembersGoAndComeBack) {
  splitmix64 random(23);
  for (int trial = 0; trial < 200; ++trial) {
    const std::size_t count = 2 + random.below(3);
    const std::uint64_t samples = 60 + random.below(200);
    std::vector<std::uint32_t> ahead;
    for (std::size_t member = 0; member < count; ++member)
      ahead.push_back(random.below(4));
    members all(std::vector<member_batch>(count, {.initial = 4, .lowest = 1, .highest = 40}), samples, ahead, false,
                random.next(), random.below(5));
    for (int epoch = 0; epoch < 3; ++epoch) {
      all.start_epoch();
      while (all.step()) {
        if (random.below(6) == 0)
          all.decide_all();
        if (random.below(6) == 0)
          all.regroup(random);
        if (random.below(12) == 0)
          all.at(random.below(static_cast<std::uint32_t>(count))).limit_batch(2 + random.below(40));
      }
      ASSERT_EQ(all.seen().size(), samples) << "trial " << trial;
      for (const auto& [number, times] : all.seen())
        ASSERT_EQ(times, 1) << "sample " << number << " in trial " << trial;
    }
  }
}

TEST(Lockstep, SharesTheGlobalBatchOfAMemberThatHasGone) {
  members all(
      {{.initial = 8, .lowest = 1, .highest = 40}, {.initial = 16, .lowest = 1, .highest = 40}, {.initial = 12}}, 500,
      {0, 0, 0}, false, 1);
  all.start_epoch();
  all.step();
  all.regroup({true, true, false});
  EXPECT_EQ(all.first().newest_batches().batches, (std::vector<std::uint32_t>{12, 24, 0}));
  all.step();
  all.regroup({true, true, true});
  EXPECT_EQ(all.first().newest_batches().batches, (std::vector<std::uint32_t>{8, 16, 12}));
}

TEST(Lockstep, PromisesTheStepsThatAnEpochHas) {
  storage::splitmix64 random(13);
  for (int plan = 0; plan < 100; ++plan) {
    const auto all = random_members(random, 1 + random.below(4), 1 + random.below(300));
    for (int epoch = 0; epoch < 2; ++epoch) {
      const auto between = all->first().epoch_steps();
      all->start_epoch();
      const auto promised = all->first().epoch_steps();
      EXPECT_EQ(between, promised);
      const auto before = all->first().step();
      while (all->step())
        ASSERT_EQ(all->first().epoch_steps(), promised);
      ASSERT_EQ(all->first().step() - before, promised);
    }
  }
}

/// The member's next samples, dealt and completed one by one until the epoch's end.
std::vector<std::uint32_t> rest_of_epoch(lockstep& steps) {
  std::vector<std::uint32_t> numbers;
  dealt_step dealt;
  while (steps.deal(dealt) == deal_verdict::dealt) {
    const auto samples = steps.samples();
    numbers.insert(numbers.end(), samples.begin(), samples.begin() + static_cast<std::ptrdiff_t>(dealt.own));
    steps.deliver();
    steps.rate({.active_workers = 2, .weighted_square_sum = 40, .global_square = 1, .global_batch = dealt.total});
    steps.complete(false);
  }
  return numbers;
}

TEST(Lockstep, GoesOnBehindARestoreWithTheSamplesAndTheStateThatFollow) {
  storage::splitmix64 random(14);
  for (int plan = 0; plan < 200; ++plan) {
    const auto world = 1 + random.below(4);
    const auto all = random_members(random, world, 50 + random.below(400));
    all->start_epoch();
    for (auto left = random.below(20); left > 0 && all->step(); --left)
      if (random.below(3) == 0)
        all->decide_all();
    const auto state = all->first().save();
    for (std::size_t member = 0; member < world; ++member) {
      EXPECT_EQ(all->at(member).save(), state) << "whatever each has fetched ahead";
      lockstep other(all->at(member).options());
      ASSERT_EQ(other.restore(state), "");
      EXPECT_EQ(other.save(), state);
      // The one that goes on has dealt ahead: it deals that again after a rewind, too.
      lockstep same(all->at(member).options());
      ASSERT_EQ(same.restore(state), "");
      other.start_epoch();
      dealt_step dealt;
      other.deal(dealt);
      other.deal(dealt);
      other.start_epoch();
      same.start_epoch();
      EXPECT_EQ(rest_of_epoch(other), rest_of_epoch(same));
      EXPECT_EQ(other.save(), same.save());
    }
  }
}

TEST(Lockstep, SharesTheRestOfAnEpochAmongOtherMembers) {
  storage::splitmix64 random(15);
  for (int plan = 0; plan < 200; ++plan) {
    const std::uint64_t samples = 50 + random.below(400);
    const auto before = random_members(random, 1 + random.below(8), samples);
    before->start_epoch();
    for (auto left = random.below(12); left > 0 && before->step(); --left) {
    }
    // What was trained on, not what was only fetched.
    const auto trained = before->first().position().epoch > 0 ? samples : before->first().position().cursor;
    const auto state = before->first().save();
    const auto total = before->first().batches_at(before->first().step()).total();
    const auto world = 1 + random.below(8);
    std::vector<std::uint32_t> numbers;
    for (std::uint32_t member = 0; member < world; ++member) {
      lockstep each(options_for(member, std::vector<member_batch>(world), samples));
      ASSERT_EQ(each.restore(state), "");
      EXPECT_EQ(each.batches_at(each.step()).total(), std::max<std::uint64_t>(total, world));
      if (trained == samples)
        continue;
      each.start_epoch();
      const auto own = rest_of_epoch(each);
      numbers.insert(numbers.end(), own.begin(), own.end());
      EXPECT_EQ(each.position(), (sampler_position{1, 0}));
    }
    std::ranges::sort(numbers);
    EXPECT_EQ(std::ranges::adjacent_find(numbers), numbers.end());
    EXPECT_EQ(numbers.size(), samples - trained);
  }
}

TEST(Lockstep, RefusesStatesThatItCannotGoOnFrom) {
  const std::vector<member_batch> two(2, {.initial = 8});
  lockstep steps(options_for(0, two, 100));
  steps.start_epoch();
  rest_of_epoch(steps);
  const auto good = steps.save();
  EXPECT_EQ(steps.restore(good), "");
  EXPECT_THAT(steps.restore({}), testing::HasSubstr("not a state"));
  for (std::size_t word = 0; word < good.size(); ++word) {
    auto damaged = good;
    damaged[word] ^= 1;
    EXPECT_NE(steps.restore(damaged), "") << word;
    EXPECT_EQ(steps.save(), good);
  }
  lockstep longer(options_for(0, two, 101));
  EXPECT_THAT(longer.restore(good), testing::HasSubstr("100 samples per epoch, this run has 101"));
  auto options = options_for(0, two, 100);
  options.seed = 8;
  lockstep reseeded(options);
  EXPECT_THAT(reseeded.restore(good), testing::HasSubstr("seed 7"));
}

TEST(Lockstep, BeginsAnEpochAgainOfWhichNoStepWasCompletedAndGivesUpTheRestOfAnother) {
  lockstep steps(options_for(0, {{.initial = 10}}, 100));
  steps.start_epoch();
  dealt_step dealt;
  ASSERT_EQ(steps.deal(dealt), deal_verdict::dealt); // somebody looks at the first batch, say
  const auto first = steps.samples();
  ASSERT_TRUE(steps.deliver());
  steps.start_epoch();
  EXPECT_FALSE(steps.deliver());
  ASSERT_EQ(steps.deal(dealt), deal_verdict::dealt);
  EXPECT_EQ(dealt.epoch, 0U);
  EXPECT_EQ(dealt.step, 0U);
  EXPECT_EQ(steps.samples(), first);
  steps.deliver();
  steps.rate(0);
  steps.complete(false);
  steps.start_epoch();
  ASSERT_EQ(steps.deal(dealt), deal_verdict::dealt);
  EXPECT_EQ(dealt.epoch, 1U);
  EXPECT_EQ(dealt.step, 1U);
  EXPECT_EQ(dealt.total, 10U);
}

TEST(Lockstep, TellsMembersThatHaveNotTakenTheSameSteps) {
  const std::vector<member_batch> two(2, {.initial = 8});
  lockstep one(options_for(0, two, 100));
  lockstep other(options_for(1, two, 100));
  const auto deliver = [](lockstep& steps, int times) {
    dealt_step dealt;
    for (int i = 0; i < times; ++i) {
      EXPECT_EQ(steps.deal(dealt), deal_verdict::dealt);
      EXPECT_TRUE(steps.deliver());
    }
  };
  one.start_epoch();
  other.start_epoch();
  deliver(one, 1);
  deliver(other, 2);
  std::vector<step_row> rows = {one.write_row({}, step_request::none, 8, 1),
                                other.write_row({}, step_request::none, 16, 1)};
  session::agreement agreed;
  EXPECT_THAT(one.read_rows(rows, agreed), testing::HasSubstr("disagree about the samples of step 0"));
  rows[1].step = 3;
  EXPECT_THAT(other.read_rows(rows, agreed), testing::HasSubstr("member 0 has completed 0 steps"));
}

TEST(Lockstep, CountsAccumulatedBatchesAsOneStepOfTheOptimiser) {
  auto options = options_for(0, {{.initial = 10}}, 1000);
  options.rule = messages::rate_rule::linear;
  lockstep steps(options);
  steps.start_epoch();
  dealt_step dealt;
  for (int i = 0; i < 4; ++i) {
    steps.deal(dealt);
    steps.deliver();
  }
  EXPECT_EQ(steps.own_samples(), 40U);
  const auto progress = steps.rate(0);
  EXPECT_EQ(progress.rate.learning_rate, 1) << "the user's schedule is meant for four batches per step";
  EXPECT_EQ(progress.gain, 1);
  EXPECT_FALSE(steps.complete(false));
  EXPECT_EQ(steps.step(), 4U);
}

TEST(Lockstep, LeavesTheProgressOfAStepThatTheOptimiserSkipped) {
  lockstep steps(options_for(0, {{.initial = 10}}, 1000));
  steps.start_epoch();
  dealt_step dealt;
  steps.deal(dealt);
  steps.deliver();
  steps.rate(0);
  steps.complete(true);
  EXPECT_EQ(steps.step(), 1U);
  EXPECT_EQ(steps.samples_done(), 10U);
  EXPECT_EQ(steps.progress(), 0);
}

TEST(Lockstep, MeasuresTheNoiseOfASampleWhateverTheWeightsCount) {
  const std::vector<member_batch> two(2, {.initial = 8});
  std::array<double, 2> scales{};
  for (const double unit : {1.0, 16.0}) { // samples, or tokens of which each sample has 16
    std::vector<std::unique_ptr<lockstep>> steps;
    for (std::uint32_t member = 0; member < 2; ++member) {
      steps.push_back(std::make_unique<lockstep>(options_for(member, two, 1000)));
      steps[member]->start_epoch();
    }
    for (int i = 0; i < 10; ++i) {
      std::vector<step_row> rows;
      for (auto& each : steps) {
        dealt_step dealt;
        each->deal(dealt);
        each->deliver();
        rows.push_back(each->write_row({}, step_request::none, 8 * unit, 3));
      }
      session::agreement agreed;
      for (auto& each : steps) {
        ASSERT_EQ(each->read_rows(rows, agreed), "");
        each->rate(2);
        each->complete(false);
      }
    }
    EXPECT_TRUE(steps[0]->noise().valid);
    scales[unit > 1 ? 1 : 0] = steps[0]->noise().noise_scale;
  }
  // tr = 8*3 + 8*3 - 16*2 = 16, |G|^2 = 2 - 16/16 = 1, and the critical batch is twice tr/|G|^2.
  EXPECT_NEAR(scales[0], 32, 1e-9);
  EXPECT_NEAR(scales[1], 32, 1e-9);
}

} // namespace
} // namespace dynamix::client
