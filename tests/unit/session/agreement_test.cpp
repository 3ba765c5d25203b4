#include "session/agreement.hpp"
#include "session/decision_slot.hpp"
#include "storage/splitmix64.hpp"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>

namespace dynamix::session {
namespace {

messages::decision decision(std::uint64_t window, std::uint32_t batch, std::uint64_t first_step = 0) {
  return {.key = {1, window}, .batch = batch, .first_step = first_step};
}

step_row row(messages::decision newest, messages::decision older = {}, step_request request = step_request::none) {
  return {.held = {newest, older}, .request = request};
}

TEST(Agreement, PicksTheNewestThatAllHold) {
  const std::vector rows{row(decision(3, 64), decision(2, 32)), row(decision(2, 128), decision(1, 256))};
  const auto agreed = agree(rows, {}, 10);
  ASSERT_TRUE(agreed.key);
  EXPECT_EQ(agreed.key->window, 2U);
  EXPECT_EQ(agreed.decisions[0].batch, 32U);
  EXPECT_EQ(agreed.decisions[1].batch, 128U);
}

TEST(Agreement, WaitsWhileOneWorkerLacksTheDecision) {
  EXPECT_FALSE(agree(std::vector{row(decision(3, 64)), row({})}, {}, 10).key);
  EXPECT_FALSE(agree(std::vector{row({}), row({})}, {}, 10).key);
}

TEST(Agreement, NeverGoesBackBehindTheLastApplied) {
  const std::vector rows{row(decision(3, 64)), row(decision(3, 64))};
  EXPECT_FALSE(agree(rows, {1, 3}, 10).key);
  EXPECT_FALSE(agree(rows, {2, 1}, 10).key);
  EXPECT_TRUE(agree(rows, {1, 2}, 10).key);
}

TEST(Agreement, TakesTheOlderOneWhileTheNewestIsNotDueEverywhere) {
  const std::vector rows{row(decision(3, 64, 20), decision(2, 32, 10)), row(decision(3, 64, 30), decision(2, 32, 10))};
  EXPECT_EQ(agree(rows, {}, 20).key->window, 2U);
  EXPECT_EQ(agree(rows, {}, 30).key->window, 3U);
  EXPECT_FALSE(agree(rows, {}, 9).key);
}

TEST(Agreement, NeverLeavesEverybodyWithoutASample) {
  EXPECT_FALSE(agree(std::vector{row(decision(1, 0)), row(decision(1, 0))}, {}, 10).key);
  EXPECT_TRUE(agree(std::vector{row(decision(1, 0)), row(decision(1, 1))}, {}, 10).key);
}

TEST(Agreement, DoesWhatTheStrongestRequestAsksFor) {
  const auto asking = [](step_request request) { return row({}, {}, request); };
  using enum step_request;
  EXPECT_EQ(agree(std::vector{asking(none), asking(none)}, {}, 10).request, none);
  EXPECT_EQ(agree(std::vector{asking(none), asking(regroup)}, {}, 10).request, regroup);
  EXPECT_EQ(agree(std::vector{asking(stop), asking(regroup), asking(none)}, {}, 10).request, stop);
}

/// A cluster without threads: an arbitrator decides on every window, and its decisions reach the workers late, twice,
/// out of order or not at all. What each worker applies is recorded.
class scripted_cluster {
public:
  explicit scripted_cluster(std::uint64_t seed) : random_(seed), workers_(1 + random_.below(4)) {
    for (std::uint32_t rank = 0; rank < workers_; ++rank)
      slots_.push_back(std::make_unique<decision_slot>(rank, lowest, highest));
    enter(1);
    last_.resize(workers_);
    applied_.resize(workers_);
  }

  void run() {
    for (std::uint64_t window = 1; window <= 30; ++window) {
      if (random_.below(15) == 0)
        enter(generation_ + 1);
      deliver(window, 0);
      std::vector<step_row> rows;
      for (const auto& slot : slots_)
        rows.push_back({.held = slot->held(), .request = step_request::none});
      deliver(window, 1); // while the rows are on their way
      apply(rows, window * window_steps);
      decide(window);
    }
    for (std::uint32_t rank = 0; rank < workers_; ++rank) {
      const auto counts = slots_[rank]->close();
      EXPECT_EQ(counts.received, counts.applied + counts.superseded + counts.unapplied);
      EXPECT_EQ(counts.applied, applied_[rank].size());
      EXPECT_EQ(applied_[rank], applied_[0]) << "the ranks applied different decisions, or at different steps";
    }
  }

  std::uint64_t applied() const { return applied_[0].size(); }

private:
  struct delivery {
    std::uint64_t at_window;
    std::uint32_t half; ///< 0: before the rows are gathered, 1: meanwhile
    messages::decision decision;
  };

  void enter(std::uint64_t generation) {
    generation_ = generation;
    for (auto& slot : slots_)
      slot->enter_generation(generation);
  }

  void decide(std::uint64_t window) {
    if (random_.below(40) == 0)
      ++term_; // a new arbitrator
    for (std::uint32_t rank = 0; rank < workers_; ++rank) {
      const auto batch =
          random_.below(20) == 0 ? highest + 1 + random_.below(9) : lowest + random_.below(highest - lowest + 1);
      const messages::decision decided{.key = {term_, window},
                                       .generation = generation_ + (random_.below(50) == 0 ? 1 : 0),
                                       .rank = rank,
                                       .batch = batch,
                                       .first_step = (window + random_.below(3)) * window_steps};
      made_in_[decided.key].insert(decided.generation);
      if (random_.below(20) == 0)
        continue; // lost
      const std::uint32_t copies = random_.below(8) == 0 ? 2 : 1;
      for (std::uint32_t copy = 0; copy < copies; ++copy)
        deliveries_.push_back({window + 1 + random_.below(random_.below(4) == 0 ? 5 : 1), random_.below(2), decided});
    }
    for (auto i = static_cast<std::uint32_t>(deliveries_.size()); i > 1; --i)
      if (random_.below(4) == 0)
        std::swap(deliveries_[i - 1], deliveries_[random_.below(i)]);
  }

  void deliver(std::uint64_t window, std::uint32_t half) {
    std::erase_if(deliveries_, [&](const delivery& due) {
      if (due.at_window > window || (due.at_window == window && due.half > half))
        return false;
      slots_[due.decision.rank]->offer(due.decision);
      return true;
    });
  }

  void apply(const std::vector<step_row>& rows, std::uint64_t step) {
    for (std::uint32_t rank = 0; rank < workers_; ++rank) {
      const auto agreed = agree(rows, last_[rank], step);
      if (!agreed.key)
        continue;
      const auto& own = agreed.decisions[rank];
      EXPECT_GT(*agreed.key, last_[rank]);
      EXPECT_TRUE(made_in_[*agreed.key].contains(generation_)) << "applied a decision of another generation";
      EXPECT_LE(own.first_step, step);
      EXPECT_GE(own.batch, lowest);
      EXPECT_LE(own.batch, highest);
      last_[rank] = *agreed.key;
      slots_[rank]->applied(own, step);
      applied_[rank].emplace_back(step, *agreed.key);
    }
  }

  static constexpr std::uint32_t lowest = 32;
  static constexpr std::uint32_t highest = 1024;
  static constexpr std::uint64_t window_steps = 10;
  storage::splitmix64 random_;
  std::uint32_t workers_;
  std::uint64_t term_ = 1;
  std::uint64_t generation_ = 1;
  std::vector<std::unique_ptr<decision_slot>> slots_;
  std::vector<messages::decision_key> last_;
  std::vector<std::vector<std::pair<std::uint64_t, messages::decision_key>>> applied_;
  std::vector<delivery> deliveries_;
  std::map<messages::decision_key, std::set<std::uint64_t>> made_in_;
};

TEST(Agreement, AppliesEachDecisionOnceInBoundsInOrderAndAtTheSameStepOnAllWorkers) {
  std::uint64_t applied = 0;
  for (std::uint64_t seed = 1; seed <= 5000 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    scripted_cluster cluster(seed);
    cluster.run();
    applied += cluster.applied();
  }
  EXPECT_GT(applied, 20000U) << "the script lets too few decisions through to test anything";
}

} // namespace
} // namespace dynamix::session
