#include "session/decision_slot.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace dynamix::session {
namespace {

messages::decision decision(std::uint64_t window, std::uint32_t batch = 64, std::uint64_t first_step = 0,
                            std::uint64_t term = 1) {
  return {.key = {term, window}, .generation = 3, .rank = 2, .batch = batch, .first_step = first_step};
}

struct entered_slot : decision_slot {
  entered_slot() : decision_slot(2, 32, 1024) { enter_generation(3); }
};

TEST(DecisionSlot, HoldsTheNewestTwoWithTheNewestFirst) {
  entered_slot slot;
  for (std::uint64_t window = 1; window <= 3; ++window)
    EXPECT_EQ(slot.offer(decision(window)), offer_verdict::accepted);
  EXPECT_EQ(slot.held()[0].key.window, 3U);
  EXPECT_EQ(slot.held()[1].key.window, 2U);
  EXPECT_EQ(slot.newest().window, 3U);
  EXPECT_EQ(slot.counts().received, 3U);
  EXPECT_EQ(slot.counts().superseded, 1U);
}

TEST(DecisionSlot, RefusesDuplicatesOlderOnesAndThoseOfAnEarlierTerm) {
  entered_slot slot;
  slot.offer(decision(5));
  slot.offer(decision(6));
  EXPECT_EQ(slot.offer(decision(6)), offer_verdict::duplicate);
  EXPECT_EQ(slot.offer(decision(5)), offer_verdict::duplicate);
  EXPECT_EQ(slot.offer(decision(4)), offer_verdict::stale);
  EXPECT_EQ(slot.offer(decision(1, 64, 0, 2)), offer_verdict::accepted);
  EXPECT_EQ(slot.offer(decision(7)), offer_verdict::stale);
  EXPECT_EQ(slot.offer(messages::decision{.generation = 3, .rank = 2, .batch = 64}), offer_verdict::stale);
  EXPECT_EQ(slot.counts().duplicated, 2U);
  EXPECT_EQ(slot.counts().stale_refused, 3U);
}

TEST(DecisionSlot, RefusesOtherGenerationsOtherRanksAndBatchesOutsideTheBounds) {
  entered_slot slot;
  auto other = decision(1);
  other.generation = 4;
  EXPECT_EQ(slot.offer(other), offer_verdict::wrong_generation);
  other = decision(1);
  other.rank = 1;
  EXPECT_EQ(slot.offer(other), offer_verdict::out_of_bounds);
  EXPECT_EQ(slot.offer(decision(1, 31)), offer_verdict::out_of_bounds);
  EXPECT_EQ(slot.offer(decision(1, 1025)), offer_verdict::out_of_bounds);
  EXPECT_EQ(slot.counts().received, 0U);
  EXPECT_EQ(slot.counts().stale_refused, 1U);
  EXPECT_EQ(slot.offer(decision(1, 32)), offer_verdict::accepted);
  EXPECT_EQ(slot.offer(decision(2, 1024)), offer_verdict::accepted);
}

TEST(DecisionSlot, ForgetsWhatIsAppliedAndEverythingOlder) {
  entered_slot slot;
  slot.offer(decision(1));
  slot.offer(decision(2, 64, 20));
  slot.applied(decision(2, 64, 20), 20);
  EXPECT_EQ(slot.held()[0].key, messages::decision_key{});
  EXPECT_EQ(slot.held()[1].key, messages::decision_key{});
  EXPECT_EQ(slot.offer(decision(2)), offer_verdict::duplicate);
  EXPECT_EQ(slot.offer(decision(1)), offer_verdict::stale);
  EXPECT_EQ(slot.counts().applied, 1U);
  EXPECT_EQ(slot.counts().superseded, 1U);
  EXPECT_EQ(slot.counts().late, 0U);
}

TEST(DecisionSlot, KeepsTheNewerOneWhenTheWorkersAgreeOnTheOlder) {
  entered_slot slot;
  slot.offer(decision(1, 64, 10));
  slot.offer(decision(2, 64, 20));
  slot.applied(decision(1, 64, 10), 20);
  EXPECT_EQ(slot.held()[0].key.window, 2U);
  EXPECT_EQ(slot.counts().late, 1U);
  EXPECT_EQ(slot.close().unapplied, 1U);
}

TEST(DecisionSlot, CountsRightWhenNewerOnesComeWhileTheWorkersAgree) {
  entered_slot slot;
  slot.offer(decision(1));
  for (std::uint64_t window = 2; window <= 4; ++window)
    slot.offer(decision(window));
  slot.applied(decision(1), 0);
  const auto counts = slot.close();
  EXPECT_EQ(counts.applied, 1U);
  EXPECT_EQ(counts.superseded, 1U);
  EXPECT_EQ(counts.unapplied, 2U);
  EXPECT_EQ(counts.received, 4U);
}

TEST(DecisionSlot, CountsWhatComesAfterTheEndAsUnapplied) {
  entered_slot slot;
  slot.close();
  EXPECT_EQ(slot.offer(decision(1)), offer_verdict::accepted);
  EXPECT_EQ(slot.held()[0].key, messages::decision_key{});
  EXPECT_EQ(slot.counts().unapplied, 1U);
}

TEST(DecisionSlot, TakesNothingBeforeItsFirstGeneration) {
  decision_slot slot(2, 32, 1024);
  EXPECT_EQ(slot.offer(decision(1)), offer_verdict::wrong_generation);
  auto of_none = decision(1);
  of_none.generation = 0;
  EXPECT_EQ(slot.offer(of_none), offer_verdict::wrong_generation);
  EXPECT_EQ(slot.counts().stale_refused, 2U);
  EXPECT_EQ(slot.counts().received, 0U);
}

TEST(DecisionSlot, DropsWhatItHoldsWhenAGenerationEndsAndGoesOnWithTheSameOrderOfKeys) {
  entered_slot slot;
  slot.offer(decision(5));
  slot.offer(decision(6));
  slot.enter_generation(4);
  EXPECT_EQ(slot.held()[0].key, messages::decision_key{});
  EXPECT_EQ(slot.counts().unapplied, 2U);
  EXPECT_EQ(slot.offer(decision(7)), offer_verdict::wrong_generation);
  auto next = decision(6);
  next.generation = 4;
  EXPECT_EQ(slot.offer(next), offer_verdict::duplicate);
  next = decision(7);
  next.generation = 4;
  EXPECT_EQ(slot.offer(next), offer_verdict::accepted);
  slot.enter_generation(4);
  EXPECT_EQ(slot.held()[0].key, next.key) << "entering once more dropped it";
  slot.applied(next, 0);
  const auto counts = slot.close();
  EXPECT_EQ(counts.received, 3U);
  EXPECT_EQ(counts.received, counts.applied + counts.superseded + counts.unapplied);
  EXPECT_EQ(counts.stale_refused, 1U);
}

TEST(DecisionSlot, CountsRightWhenAGenerationEndsWhileItsDecisionComesIntoForce) {
  entered_slot slot;
  slot.offer(decision(1));
  slot.offer(decision(2));
  const auto agreed = slot.held()[0];
  slot.enter_generation(7);
  EXPECT_EQ(slot.counts().unapplied, 2U);
  slot.applied(agreed, 0);
  const auto counts = slot.counts();
  EXPECT_EQ(counts.applied, 1U);
  EXPECT_EQ(counts.unapplied, 1U);
  EXPECT_EQ(counts.superseded, 0U);
}

TEST(DecisionSlot, LosesNoDecisionBetweenAnOfferingAndAnApplyingThread) {
  entered_slot slot;
  constexpr std::uint64_t windows = 20000;
  std::atomic<bool> done = false;
  std::jthread offering([&] {
    for (std::uint64_t window = 1; window <= windows; ++window) {
      slot.offer(decision(window));
      if (window % 7 == 0)
        slot.offer(decision(window));
      if (window % 11 == 0)
        slot.offer(decision(window - 5));
    }
    done = true;
  });
  messages::decision_key last;
  std::uint64_t applied = 0;
  while (!done) {
    const auto held = slot.held();
    ASSERT_GE(held[0].key, held[1].key);
    const auto& chosen = held[applied % 2];
    if (chosen.key == messages::decision_key{})
      continue;
    ASSERT_GT(chosen.key, last);
    last = chosen.key;
    slot.applied(chosen, 0);
    ++applied;
  }
  offering.join();
  const auto counts = slot.close();
  EXPECT_EQ(counts.received, windows);
  EXPECT_EQ(counts.applied, applied);
  EXPECT_EQ(counts.received, counts.applied + counts.superseded + counts.unapplied);
  EXPECT_EQ(counts.duplicated + counts.stale_refused, windows / 7 + windows / 11);
}

} // namespace
} // namespace dynamix::session
