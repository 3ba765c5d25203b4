// Many members in one process: what each derives by itself must be the same on all, whatever their data loaders fetch.

#include "client/lockstep.hpp"
#include "client/random.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <memory>
#include <numeric>

namespace dynamix::client {
namespace {

using session::step_request;

lockstep_options options_for(std::uint32_t position, std::vector<member_batch> members, std::uint64_t samples) {
  return {.position = position, .members = std::move(members), .samples = samples, .seed = 7};
}

messages::decision decide(std::uint64_t window, std::uint32_t rank, std::uint32_t batch) {
  return {.key = {.term = 1, .window = window}, .generation = 1, .rank = rank, .batch = batch, .first_step = 0};
}

/// All members of a training, each with a data loader that deals so many batches ahead; or, every second one where
/// `leased` are fetched before they are dealt, that deals a batch when the training loop takes it. Decisions reach the
/// members at different times.
class members {
public:
  members(std::vector<member_batch> batches, std::uint64_t samples, std::vector<std::uint32_t> ahead, bool drop_last,
          std::uint64_t seed, std::uint32_t leased = 0)
      : samples_(samples), ahead_(std::move(ahead)), random_(seed), held_(batches.size()),
        present_(batches.size(), true) {
    for (std::uint32_t position = 0; position < batches.size(); ++position) {
      auto options = options_for(position, batches, samples);
      options.drop_last = drop_last;
      options.ahead = leased;
      options.fetches = leased > 0 && position % 2 == 0;
      if (options.fetches)
        ahead_[position] = fetches;
      steps_.push_back(std::make_unique<lockstep>(std::move(options)));
    }
  }

  void start_epoch() {
    for (const auto member : here())
      steps_[member]->start_epoch();
    epoch_ = lead().position().epoch;
    numbers_.assign(steps_.size(), {});
    fetched_.assign(steps_.size(), {});
    seen_.clear();
  }

  /// Trains one step of so many batches, fewer at an epoch's end; with `each_synchronised` a row goes out as soon as
  /// one is due. False: the epoch is over on all members.
  bool step(std::uint32_t batches = 1, bool each_synchronised = false) {
    bool exchanged = false;
    std::uint32_t taken = 0;
    while (taken < batches && take_batches()) {
      ++taken;
      if (each_synchronised && !exchanged && lead().gathers()) {
        exchange_rows();
        exchanged = true;
      }
    }
    if (taken == 0)
      return false;
    check_step();
    if (!exchanged && lead().gathers())
      exchange_rows();
    for (const auto member : here()) {
      steps_[member]->rate(0);
      steps_[member]->complete(false);
    }
    return true;
  }

  /// To be seen by each member from now on or from its next steps on.
  void decide_all() {
    ++window_;
    for (std::size_t member = 0; member < steps_.size(); ++member)
      arrivals_[{lead().step() + random_.below(4), member}] =
          decide(window_, static_cast<std::uint32_t>(member), 1 + random_.below(40));
  }

  /// Some members go, or have come back with the state of another one, which may be a step ahead.
  void regroup(storage::splitmix64& random) {
    std::vector<bool> present(steps_.size());
    for (std::size_t member = 0; member < steps_.size(); ++member)
      present[member] = random.below(3) > 0;
    present[random.below(static_cast<std::uint32_t>(steps_.size()))] = true;
    regroup(present);
  }

  void regroup(const std::vector<bool>& present) {
    const auto state = lead().save();
    const bool in_epoch = lead().position().epoch == epoch_;
    for (std::size_t member = 0; member < steps_.size(); ++member) {
      if (present[member] && !present_[member]) { // a new process
        auto options = steps_[member]->options(); // as others have them, since its own limit is gone with it
        options.members[member] = steps_[member == 0 ? 1 : 0]->options().members[member];
        steps_[member] = std::make_unique<lockstep>(std::move(options));
        EXPECT_EQ(steps_[member]->catch_up(state), "");
        steps_[member]->regroup(present);
        if (in_epoch)
          steps_[member]->start_epoch();
      } else if (present[member]) {
        steps_[member]->regroup(present);
      }
      numbers_[member].clear();
      fetched_[member].clear();
    }
    present_ = present;
  }

  const std::map<std::uint32_t, int>& seen() const { return seen_; }
  lockstep& first() { return lead(); }
  lockstep& at(std::size_t member) { return *steps_[member]; }
  std::size_t size() const { return steps_.size(); }
  std::uint64_t changes() const { return changes_; }

private:
  std::vector<std::size_t> here() const {
    std::vector<std::size_t> found;
    for (std::size_t member = 0; member < present_.size(); ++member)
      if (present_[member])
        found.push_back(member);
    return found;
  }
  lockstep& lead() { return *steps_[here().front()]; }

  /// One batch on each member; none on all where the epoch is over.
  bool take_batches() {
    std::vector<bool> goes_on;
    for (const auto member : here())
      goes_on.push_back(next_batch(member));
    EXPECT_TRUE(std::ranges::count(goes_on, goes_on[0]) == static_cast<std::ptrdiff_t>(goes_on.size()))
        << "some members have a step and others none";
    return goes_on[0];
  }

  bool next_batch(std::size_t member) {
    auto& steps = *steps_[member];
    auto& waiting = numbers_[member];
    if (ahead_[member] == fetches)
      return next_of_fetched(member);
    while (waiting.size() <= ahead_[member]) {
      dealt_step dealt;
      if (steps.deal(dealt) != deal_verdict::dealt)
        break;
      waiting.push_back(steps.samples());
      waiting.back().resize(dealt.own);
    }
    if (waiting.empty())
      return false;
    for (const auto number : waiting.front())
      ++seen_[number];
    waiting.erase(waiting.begin());
    return steps.deliver().has_value();
  }

  /// The loader's workers have fetched whatever was leased, or less of it.
  bool next_of_fetched(std::size_t member) {
    auto& steps = *steps_[member];
    auto& fetched = fetched_[member];
    const auto fetch = [&] {
      const auto verdict = steps.fetch();
      const auto samples = steps.samples();
      if (verdict == deal_verdict::dealt)
        fetched.insert(fetched.end(), samples.begin(), samples.end());
      return verdict == deal_verdict::dealt;
    };
    for (auto pieces = random_.below(8); pieces > 0 && fetch(); --pieces) {
    }
    dealt_step dealt;
    if (steps.deal(dealt) != deal_verdict::dealt)
      return false;
    while (fetched.size() < dealt.own && fetch()) {
    }
    EXPECT_GE(fetched.size(), dealt.own) << "more is dealt than was leased";
    for (auto count = std::min<std::size_t>(dealt.own, fetched.size()); count > 0; --count) {
      ++seen_[fetched.front()];
      fetched.pop_front();
    }
    return steps.deliver().has_value();
  }

  void check_step() {
    std::uint64_t own = 0;
    for (const auto member : here()) {
      const auto& each = *steps_[member];
      own += each.own_samples();
      EXPECT_EQ(each.total_samples(), lead().total_samples());
      EXPECT_EQ(each.gathers(), lead().gathers());
      EXPECT_EQ(each.measures(), lead().measures());
    }
    EXPECT_EQ(own, lead().total_samples());
  }

  void exchange_rows() {
    std::vector<step_row> rows;
    for (std::size_t member = 0; member < steps_.size(); ++member) {
      if (!present_[member]) {
        rows.push_back({.step = 12345, .weight = -1}); // nobody reads it
        continue;
      }
      for (auto arrived = arrivals_.begin(); arrived != arrivals_.end();) {
        const bool due = arrived->first.first <= lead().step() && arrived->first.second == member;
        if (due)
          held_[member] = {arrived->second, held_[member][0]};
        arrived = due ? arrivals_.erase(arrived) : std::next(arrived);
      }
      auto& steps = *steps_[member];
      const auto weight = static_cast<double>(steps.own_samples());
      const auto row = steps.write_row(held_[member], step_request::none, weight, 1);
      const auto numbers = session::encode(row);
      rows.push_back(session::decode_step_row(numbers));
      dealt_step dealt;
      EXPECT_NE(steps.deal(dealt), deal_verdict::dealt);
    }
    for (const auto member : here()) {
      session::agreement agreed;
      ASSERT_EQ(steps_[member]->read_rows(rows, agreed), "");
      EXPECT_EQ(steps_[member]->newest_batches().batches, lead().newest_batches().batches);
      changes_ += agreed.key && member == here().front() ? 1 : 0;
    }
  }

  static constexpr std::uint32_t fetches = UINT32_MAX;
  const std::uint64_t samples_;
  std::vector<std::uint32_t> ahead_;
  std::vector<std::deque<std::uint32_t>> fetched_;
  storage::splitmix64 random_;
  std::vector<std::array<messages::decision, 2>> held_;
  std::vector<bool> present_;
  std::uint64_t epoch_ = 0;
  std::vector<std::unique_ptr<lockstep>> steps_;
  std::vector<std::vector<std::vector<std::uint32_t>>> numbers_;
  std::map<std::pair<std::uint64_t, std::size_t>, messages::decision> arrivals_;
  std::map<std::uint32_t, int> seen_;
  std::uint64_t window_ = 0;
  std::uint64_t changes_ = 0;
};

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
    members all(batches, samples, ahead, false, random.next(), leased);
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
