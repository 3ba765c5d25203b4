// What a lockstep saves.

#include "client/lockstep.hpp"
#include "client/random.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <utility>

namespace dynamix::client {
namespace {

TEST(LockstepState, HasOneSizeWhateverIsLeasedOfAStream) {
  storage::splitmix64 random(12);
  for (int plan = 0; plan < 100; ++plan) {
    lockstep_options options{.ahead = random.below(40), .fetches = true, .seed = random.next()};
    for (auto world = 1 + random.below(6); world > 0; --world) {
      options.members.push_back({.initial = 1 + random.below(20)});
      options.lanes.push_back(1 + random.below(8));
    }
    for (auto shards = 1 + random.below(200); shards > 0; --shards)
      options.shards.push_back(1 + random.below(random.below(2) == 0 ? 3 : 300));
    options.samples = std::accumulate(options.shards.begin(), options.shards.end(), std::uint64_t{0});
    options.identity = 1;
    lockstep steps(options);
    const auto size = steps.save().size();
    steps.start_epoch();
    for (dealt_step dealt; steps.deal(dealt) == deal_verdict::dealt;) {
      steps.deliver();
      std::vector<step_row> rows(options.members.size(), steps.write_row({}, session::step_request::none, 1, 0));
      for (auto& row : rows) { // each member holds its own of one decision
        row.held[0] = {.key = {.term = 1, .window = steps.step() + 1},
                       .generation = 1,
                       .rank = static_cast<std::uint32_t>(&row - rows.data()),
                       .batch = 1 + random.below(20)};
      }
      session::agreement agreed;
      ASSERT_EQ(steps.read_rows(rows, agreed), "");
      steps.rate(0);
      steps.complete(false);
      ASSERT_EQ(steps.save().size(), size) << "plan " << plan << ", step " << steps.step();
    }
  }
}

/// Two members with 12 samples each, of whom the second has said that it can hold 8.
class LimitedMembers : public testing::Test {
protected:
  LimitedMembers() : options_{.members = {{.initial = 12, .highest = 100}, {.initial = 12, .highest = 100}}} {
    options_.samples = 1000;
    std::vector<lockstep> all;
    for (options_.position = 0; options_.position < 2; ++options_.position)
      all.emplace_back(options_);
    options_.position = 0;
    all[1].limit_batch(8);
    std::vector<step_row> rows;
    for (auto& each : all) {
      dealt_step dealt;
      each.start_epoch();
      each.deal(dealt);
      each.deliver();
      rows.push_back(each.write_row({}, session::step_request::none, 1, 0));
    }
    session::agreement agreed;
    EXPECT_EQ(all[0].read_rows(rows, agreed), "");
    all[0].rate(0);
    all[0].complete(false);
    state_ = all[0].save();
  }
  planned_batches restored() const {
    lockstep steps(options_);
    EXPECT_EQ(steps.restore(state_), "");
    return steps.newest_batches();
  }

  lockstep_options options_;
  std::vector<std::uint64_t> state_;
};

TEST_F(LimitedMembers, StayLimitedInAState) {
  EXPECT_EQ(restored().batches, (std::vector<std::uint32_t>{12, 8}));
  EXPECT_EQ(restored().limits, (std::vector<std::uint32_t>{100, 8}));
}

/// Of an epoch of ten steps.
class LeftEpoch : public testing::Test {
protected:
  using place = std::pair<std::uint64_t, std::uint64_t>;
  LeftEpoch() { steps_.start_epoch(); }
  static lockstep_options options() { return {.members = {{.initial = 10}}, .samples = 100, .seed = 3}; }
  deal_verdict take() {
    dealt_step dealt;
    const auto verdict = steps_.deal(dealt);
    steps_.deliver();
    return verdict;
  }
  void complete(session::step_request request = session::step_request::none) {
    session::agreement agreed;
    const std::vector<step_row> rows{steps_.write_row({}, request, 1, 0)};
    ASSERT_EQ(steps_.read_rows(rows, agreed), "");
    steps_.rate(0);
    steps_.complete(false);
  }
  place next() const { return {steps_.next_position().epoch, steps_.next_position().cursor}; }

  lockstep steps_{options()};
};

TEST_F(LeftEpoch, IsFollowedByTheNextAlsoBehindAState) {
  take();
  complete();
  take(); // in vain
  EXPECT_EQ(next(), place(0, 10));
  steps_.leave_epoch(0);
  EXPECT_EQ(next(), place(1, 0));
  EXPECT_EQ(steps_.position().cursor, 10U);
  EXPECT_EQ(take(), deal_verdict::end);
  lockstep other(options());
  ASSERT_EQ(other.restore(steps_.save()), "");
  steps_.start_epoch();
  other.start_epoch();
  EXPECT_EQ(next(), place(1, 0));
  EXPECT_EQ(other.position().epoch, 1U);
  dealt_step dealt;
  ASSERT_EQ(steps_.deal(dealt), deal_verdict::dealt);
  ASSERT_EQ(other.deal(dealt), deal_verdict::dealt);
  EXPECT_EQ(steps_.samples(), other.samples());
}

TEST_F(LeftEpoch, IsLeftOnceItsLastStepIsCompleted) {
  take();
  complete();
  take();
  steps_.leave_epoch(1);
  steps_.leave_epoch(0); // the loop's iterator ends
  EXPECT_EQ(next(), place(0, 10));
  complete();
  EXPECT_EQ(next(), place(1, 0));
}

TEST_F(LeftEpoch, BeginsAgainWhereNoStepWasCompleted) {
  take();
  steps_.leave_epoch(0);
  EXPECT_EQ(next(), place(0, 0));
  steps_.start_epoch();
  EXPECT_EQ(take(), deal_verdict::dealt);
}

TEST_F(LeftEpoch, GoesOnWhereTheMembersStop) {
  take();
  complete(session::step_request::stop);
  steps_.leave_epoch(0);
  EXPECT_EQ(next(), place(0, 10));
}

TEST_F(LeftEpoch, StaysLeftWhereTheGroupIsFormedAnew) {
  take();
  complete();
  steps_.leave_epoch(0);
  steps_.regroup({true});
  EXPECT_EQ(take(), deal_verdict::end);
  EXPECT_EQ(next(), place(1, 0));
}

} // namespace
} // namespace dynamix::client
