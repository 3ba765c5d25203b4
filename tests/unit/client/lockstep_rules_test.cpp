/// The invariants S-1 to S-3 of client/lockstep.hpp, on members whose batch sizes are decided, balanced, and both, and
/// that ask to stop and to regroup. S-2 is what `members` holds every step to: none deals while it waits for rows, and
/// all have dealt a step alike, however far ahead each of them has.

#include "tests/unit/client/lockstep_members.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

namespace dynamix::client {
namespace {

using messages::balancing;
using session::step_request;

/// Random members of one training, and what happens to it in each of its steps.
class LockstepRules : public ::testing::TestWithParam<balancing> {
protected:
  static constexpr int plans = 100;
  static constexpr int steps = 120;

  template <class Check>
  void train(Check check) {
    for (int plan = 0; plan < plans && !HasFailure(); ++plan) {
      std::vector<member_batch> batches(2 + random_.below(7));
      std::vector<std::uint32_t> ahead;
      for (auto& batch : batches) {
        batch.initial = 5 + random_.below(20);
        batch.highest = 60;
        ahead.push_back(random_.below(5));
      }
      members all(batches, 3000 + random_.below(3000), ahead, false, random_.next(), random_.below(6), GetParam());
      all.start_epoch();
      for (int step = 0; step < steps && !HasFailure(); ++step) {
        SCOPED_TRACE("plan " + std::to_string(plan) + ", step " + std::to_string(all.first().step()));
        check(all);
        if (random_.below(25) == 0)
          all.decide_all();
      }
    }
  }

  storage::splitmix64 random_{static_cast<std::uint64_t>(GetParam()) + 5};
};

TEST_P(LockstepRules, S1AllComeToTheSameByTheSameRows) {
  int requests = 0;
  train([&](members& all) {
    auto strongest = step_request::none;
    for (std::size_t member = 0; member < all.size(); ++member) {
      const auto wanted =
          std::array{step_request::regroup, step_request::stop, step_request::none}[std::min(random_.below(60), 2U)];
      all.request(member, wanted);
      strongest = std::max(strongest, wanted);
    }
    if (!all.step()) {
      all.start_epoch();
      return;
    }
    requests += strongest != step_request::none ? 1 : 0;
    ASSERT_EQ(all.agreed().size(), all.size());
    for (const auto& agreed : all.agreed()) {
      EXPECT_EQ(agreed.request, strongest);
      EXPECT_EQ(agreed.key, all.agreed().front().key);
    }
  });
  EXPECT_GT(requests, plans);
}

TEST_P(LockstepRules, S3SharesKeepTheGlobalBatchOfTheDecisionThatAllHold) {
  int decided = 0;
  int moved = 0;
  train([&](members& all) {
    const auto before = all.first().newest_batches();
    if (!all.step()) {
      all.start_epoch();
      return;
    }
    const auto& after = all.first().newest_batches();
    if (const auto key = all.agreed().front().key) {
      std::uint64_t total = 0;
      for (const auto& decision : all.agreed().front().decisions)
        total += decision.batch;
      EXPECT_EQ(after.total(), total);
      EXPECT_EQ(after.key, *key);
      ++decided;
    } else if (before.total() >= all.first().base_batch()) { // S-5: else it may grow
      EXPECT_EQ(after.total(), before.total());
      moved += after.batches != before.batches ? 1 : 0;
    }
  });
  EXPECT_GT(decided, plans);
  if (GetParam() == balancing::off)
    EXPECT_EQ(moved, 0);
  else
    EXPECT_GT(moved, plans);
}

std::string form_name(const ::testing::TestParamInfo<balancing>& form) {
  return form.param == balancing::off ? "Decided" : form.param == balancing::shares ? "Balanced" : "Automatic";
}

INSTANTIATE_TEST_SUITE_P(Forms, LockstepRules,
                         ::testing::Values(balancing::off, balancing::shares, balancing::automatic), form_name);

} // namespace
} // namespace dynamix::client
