// Many members in one process: what each derives by itself must be the same on all, whatever their data loaders fetch.

#include "client/lockstep.hpp"
#include "client/random.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>

namespace dynamix::client {
namespace {

using session::boundary_request;

lockstep_options options_for(std::uint32_t position, std::vector<member_batch> members, std::uint64_t samples) {
  return {.position = position, .members = std::move(members), .samples = samples, .seed = 7};
}

messages::decision decide(std::uint64_t window, std::uint32_t rank, std::uint32_t batch) {
  return {.key = {.term = 1, .window = window}, .generation = 1, .rank = rank, .batch = batch, .first_step = 0};
}

/// All members of a training, each with a data loader that fetches so many batches ahead. Decisions reach the members
/// at different times.
class members {
public:
  members(std::vector<member_batch> batches, std::uint64_t samples, std::vector<std::uint32_t> ahead, bool drop_last,
          std::uint64_t seed)
      : samples_(samples), ahead_(std::move(ahead)), random_(seed), held_(batches.size()) {
    for (std::uint32_t position = 0; position < batches.size(); ++position) {
      auto options = options_for(position, batches, samples);
      options.drop_last = drop_last;
      steps_.push_back(std::make_unique<lockstep>(std::move(options)));
    }
  }

  void start_epoch() {
    for (auto& each : steps_)
      each->start_epoch();
    numbers_.assign(steps_.size(), {});
    seen_.clear();
  }

  /// Trains one step. False: the epoch is over on all members.
  bool step() {
    std::vector<bool> goes_on;
    for (std::size_t member = 0; member < steps_.size(); ++member)
      goes_on.push_back(next_batch(member));
    EXPECT_TRUE(std::ranges::count(goes_on, goes_on[0]) == static_cast<std::ptrdiff_t>(goes_on.size()))
        << "some members have a step and others none";
    if (!goes_on[0])
      return false;
    check_step();
    if (steps_[0]->gathers())
      exchange_rows();
    for (auto& each : steps_) {
      each->rate(0);
      each->complete(false);
    }
    return true;
  }

  /// To be seen by each member from now on or from its next steps on.
  void decide_all() {
    ++window_;
    for (std::size_t member = 0; member < steps_.size(); ++member)
      arrivals_[{steps_[0]->step() + random_.below(4), member}] =
          decide(window_, static_cast<std::uint32_t>(member), 1 + random_.below(40));
  }

  const std::map<std::uint32_t, int>& seen() const { return seen_; }
  lockstep& first() { return *steps_[0]; }
  lockstep& at(std::size_t member) { return *steps_[member]; }
  std::size_t size() const { return steps_.size(); }
  std::uint64_t changes() const { return changes_; }

private:
  bool next_batch(std::size_t member) {
    auto& steps = *steps_[member];
    auto& waiting = numbers_[member];
    while (waiting.size() <= ahead_[member]) {
      dealt_step dealt;
      if (steps.deal(dealt) != deal_verdict::dealt)
        break;
      const auto samples = steps.samples();
      waiting.push_back({samples.begin(), samples.begin() + static_cast<std::ptrdiff_t>(dealt.own.count)});
    }
    if (waiting.empty())
      return false;
    for (const auto number : waiting.front())
      ++seen_[number];
    waiting.erase(waiting.begin());
    return steps.deliver().has_value();
  }

  void check_step() {
    std::uint64_t own = 0;
    for (auto& each : steps_) {
      own += each->own_samples();
      EXPECT_EQ(each->total_samples(), steps_[0]->total_samples());
      EXPECT_EQ(each->gathers(), steps_[0]->gathers());
      EXPECT_EQ(each->measures(), steps_[0]->measures());
    }
    EXPECT_EQ(own, steps_[0]->total_samples());
  }

  void exchange_rows() {
    std::vector<step_row> rows;
    for (std::size_t member = 0; member < steps_.size(); ++member) {
      for (auto arrived = arrivals_.begin(); arrived != arrivals_.end();) {
        const bool due = arrived->first.first <= steps_[0]->step() && arrived->first.second == member;
        if (due)
          held_[member] = {arrived->second, held_[member][0]};
        arrived = due ? arrivals_.erase(arrived) : std::next(arrived);
      }
      auto& steps = *steps_[member];
      const auto weight = static_cast<double>(steps.own_samples());
      const auto row = steps.write_row(held_[member], boundary_request::none, true, weight, 1);
      const auto numbers = encode(row);
      rows.push_back(decode_step_row(numbers));
      dealt_step dealt;
      EXPECT_NE(steps.deal(dealt), deal_verdict::dealt);
    }
    for (auto& each : steps_) {
      session::agreement agreed;
      ASSERT_EQ(each->read_rows(rows, agreed), "");
      EXPECT_EQ(each->newest_batches().batches, steps_[0]->newest_batches().batches);
      changes_ += agreed.key && each == steps_[0] ? 1 : 0;
    }
  }

  const std::uint64_t samples_;
  std::vector<std::uint32_t> ahead_;
  storage::splitmix64 random_;
  std::vector<std::array<messages::decision, 2>> held_;
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
  for (int plan = 0; plan < 1000; ++plan) {
    const auto world = 1 + random.below(8);
    std::vector<member_batch> batches(world);
    std::vector<std::uint32_t> ahead;
    for (auto& batch : batches) {
      batch.initial = 1 + random.below(20);
      ahead.push_back(random.below(7)); // more than some epochs have
    }
    const auto samples = 1 + random.below(400);
    members all(batches, samples, ahead, false, random.next());
    for (int epoch = 0; epoch < 3; ++epoch) {
      all.start_epoch();
      while (all.step())
        if (random.below(3) == 0)
          all.decide_all();
      ASSERT_EQ(all.seen().size(), samples) << "plan " << plan;
      for (const auto& [number, times] : all.seen())
        ASSERT_EQ(times, 1) << "sample " << number << " in plan " << plan;
      ASSERT_EQ(all.first().position(), (sampler_position{static_cast<std::uint64_t>(epoch) + 1, 0}));
    }
    changes += all.changes();
  }
  EXPECT_GT(changes, 1000U);
}

} // namespace
} // namespace dynamix::client
