// Members that go on without those that have gone: all that are left must come to the same.

#include "client/lockstep.hpp"

#include <gtest/gtest.h>

#include <array>
#include <memory>

namespace dynamix::client {
namespace {

using batches = std::vector<std::uint32_t>;

/// Three members, each with a lockstep of its own.
class Regroup : public testing::Test {
protected:
  void begin(const member_batch& each, std::uint64_t samples) {
    options_ = {.members = std::vector<member_batch>(3, each), .samples = samples, .seed = 7};
    for (std::uint32_t member = 0; member < 3; ++member) {
      make(member);
      all_[member]->start_epoch();
    }
  }
  void make(std::uint32_t member) {
    options_.position = member;
    all_[member] = std::make_unique<lockstep>(options_);
  }
  /// Of the next step, which was dealt; of members that are absent one that says nothing. Each holds its own of one
  /// decision, for batches of `batch` and more.
  std::vector<step_row> rows(std::uint64_t window = 0, std::uint32_t batch = 0) {
    std::vector<step_row> all(3);
    for (std::uint32_t member = 0; member < 3; ++member) {
      if (!present_[member])
        continue;
      messages::decision decided;
      if (window > 0)
        decided = {.key = {.term = 1, .window = window}, .generation = 1, .rank = member, .batch = batch + member};
      all_[member]->deliver();
      all[member] = all_[member]->write_row({decided}, session::step_request::none, 1, 0);
    }
    return all;
  }
  void complete(const std::vector<step_row>& with) {
    for (std::size_t member = 0; member < 3; ++member)
      if (present_[member]) {
        session::agreement agreed;
        ASSERT_EQ(all_[member]->read_rows(with, agreed), "");
        all_[member]->rate(0);
        all_[member]->complete(false);
      }
  }
  void step() {
    dealt_step dealt;
    for (std::size_t member = 0; member < 3; ++member)
      if (present_[member]) {
        ASSERT_EQ(all_[member]->deal(dealt), deal_verdict::dealt);
      }
    complete(rows());
  }
  void regroup(std::vector<bool> present) {
    present_ = std::move(present);
    for (std::size_t member = 0; member < 3; ++member)
      if (present_[member])
        all_[member]->regroup(present_);
  }
  void expect_batches(const batches& expected) {
    for (std::size_t member = 0; member < 3; ++member)
      if (present_[member]) {
        EXPECT_EQ(all_[member]->newest_batches().batches, expected) << "member " << member;
      }
  }

  lockstep_options options_;
  std::array<std::unique_ptr<lockstep>, 3> all_;
  std::vector<bool> present_ = {true, true, true};
};

TEST_F(Regroup, KeepsWhatTheOthersCanHold) {
  begin({.initial = 64, .lowest = 1, .highest = 1024}, 100'000);
  all_[2]->limit_batch(64);
  step();
  step();
  regroup({true, false, true});
  expect_batches({128, 0, 64});
  step();
  expect_batches({128, 0, 64});
  // It comes back as a new process, with the state of another one.
  const auto state = all_[0]->save();
  make(1);
  ASSERT_EQ(all_[1]->catch_up(state), "");
  regroup({true, true, true});
  all_[1]->start_epoch();
  expect_batches({85, 64, 43});
  step();
  expect_batches({85, 64, 43});
}

TEST_F(Regroup, KeepsALimitBelowTheLowestBatchOfAll) {
  begin({.initial = 64, .lowest = 32, .highest = 1024}, 100'000);
  all_[2]->limit_batch(16);
  step();
  step();
  expect_batches({64, 64, 16});
  regroup({true, false, true});
  expect_batches({128, 0, 16});
}

/// Where the epoch is dealt to its end, what is agreed in one step and in the next holds from the same step on.
TEST_F(Regroup, ForgetsWhatNotAllHaveReadBeforeAMemberDied) {
  begin({.initial = 8, .lowest = 1, .highest = 64}, 144);
  dealt_step dealt;
  for (auto& each : all_)
    while (each->deal(dealt) == deal_verdict::dealt) {
    }
  complete(rows(1, 10));
  session::agreement agreed;
  ASSERT_EQ(all_[0]->read_rows(rows(2, 20), agreed), "");
  EXPECT_EQ(all_[0]->save(), all_[1]->save());
  regroup({true, true, false});
  expect_batches({17, 16, 0}); // of the 33 that all have agreed on
  step();
}

/// What is left of the open epoch is given up for what the state says, whatever epoch that is.
TEST_F(Regroup, GoesOnWithTheRestOfASavedEpochAlsoWhereAnEpochOfThatNumberIsUnderWay) {
  begin({.initial = 8, .lowest = 1, .highest = 64}, 240);
  step();
  regroup({true, true, false});
  step();
  const auto state = all_[0]->save(); // 48 samples of epoch 0, without the third member
  make(2);
  regroup({true, true, true});
  for (std::uint32_t member = 0; member < 3; ++member) {
    make(member);
    all_[member]->start_epoch();
  }
  step();
  for (auto& each : all_)
    ASSERT_EQ(each->restore(state), "");
  regroup({true, true, true});
  expect_batches({8, 8, 8});
  for (auto& each : all_)
    each->start_epoch();
  EXPECT_EQ(all_[0]->position().epoch, 0U);
  EXPECT_EQ(all_[0]->position().cursor, 48U);
  EXPECT_EQ(all_[0]->epoch_steps(), 8U);
  step();
  EXPECT_EQ(all_[2]->position().cursor, 72U);
}

TEST_F(Regroup, SharesASavedBatchAmongThoseWhoAreHere) {
  begin({.initial = 8, .lowest = 1, .highest = 64}, 240);
  step();
  const auto state = all_[0]->save();
  regroup({true, false, true});
  for (const auto member : {0, 2})
    ASSERT_EQ(all_[member]->restore(state), "");
  expect_batches({12, 0, 12});
}

TEST_F(Regroup, CatchesUpInTheEpochThatStandsOpen) {
  begin({.initial = 8, .lowest = 1, .highest = 64}, 240);
  step();
  regroup({true, true, false});
  step();
  regroup({true, true, true}); // the third was cut off, and is a step behind
  ASSERT_EQ(all_[2]->catch_up(all_[0]->save()), "");
  regroup({true, true, true});
  EXPECT_EQ(all_[2]->position().cursor, 48U);
  step(); // without another start_epoch
  expect_batches({8, 8, 8});
  EXPECT_EQ(all_[2]->position().cursor, 72U);
}

/// Who has no agent holds no decision, and keeps its batch.
TEST_F(Regroup, DecidesForTheOthersWhereAnAgentIsGone) {
  begin({.initial = 8, .lowest = 1, .highest = 64}, 100'000);
  const auto step_with = [&](std::uint64_t window, std::uint32_t batch, const std::vector<bool>& without) {
    dealt_step dealt;
    for (auto& each : all_)
      ASSERT_EQ(each->deal(dealt), deal_verdict::dealt);
    auto said = rows(window, batch);
    for (std::size_t member = 0; member < 3; ++member)
      said[member].without_agent = without[member];
    said[2].held = {};
    complete(said);
  };
  step_with(1, 10, {false, false, false});
  expect_batches({8, 8, 8});
  step_with(1, 10, {false, false, true});
  expect_batches({10, 11, 8});
  EXPECT_TRUE(all_[2]->has_agent(1));
  EXPECT_FALSE(all_[1]->has_agent(2));
  step_with(2, 20, {true, true, true}); // what is left of the last agents' decisions does not count
  expect_batches({10, 11, 8});
  step_with(2, 20, {true, false, true});
  expect_batches({20, 21, 8});
  step_with(3, 30, {false, false, false}); // its agent is back
  expect_batches({20, 21, 8});
  step_with(3, 30, {false, false, true});
  expect_batches({30, 31, 8});
  regroup({true, true, false});
  EXPECT_TRUE(all_[0]->has_agent(2)) << "of another process, once it comes back";
}

TEST_F(Regroup, StopsWhereAMemberWithoutAgentWasAskedTo) {
  begin({.initial = 8, .lowest = 1, .highest = 64}, 100'000);
  dealt_step dealt;
  for (auto& each : all_)
    ASSERT_EQ(each->deal(dealt), deal_verdict::dealt);
  auto said = rows();
  said[1].without_agent = true;
  said[1].request = session::step_request::stop;
  complete(said);
  for (auto& each : all_)
    EXPECT_TRUE(each->stops());
}

} // namespace
} // namespace dynamix::client
