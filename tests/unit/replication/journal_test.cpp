#include "replication/journal.hpp"
#include "tests/unit/replication/journal_examples.hpp"

#include <gtest/gtest.h>

namespace dynamix::replication {
namespace {

/// A journal in which term 1 has begun and generation 1 of three members is formed. Its client is 1.
class Begun : public testing::Test {
protected:
  Begun() {
    expect(begin_term(next(), 1), verdict::applied);
    expect(form_generation(next(), 1, 1), verdict::applied);
  }
  proposal_key next() { return {1, ++sequence_}; }
  void expect(const journal_entry& entry, verdict wanted) {
    const auto outcome = apply(book, entry);
    EXPECT_EQ(outcome.result, wanted) << kind_name(entry) << ": " << to_string(outcome.result);
    EXPECT_FALSE(outcome.repeated);
  }
  journal book;

private:
  std::uint64_t sequence_ = 0;
};

TEST_F(Begun, KeepsTheNewestWindowWithAllItsDecisions) {
  expect(decide_window(next(), 1, 1), verdict::applied);
  expect(decide_window(next(), 1, 4), verdict::applied); // windows may be left out
  EXPECT_EQ(book.state().last_window, 4U);
  EXPECT_EQ(book.state().newest_key, (messages::decision_key{1, 4}));
  ASSERT_EQ(book.state().decisions.size(), 3U);
  EXPECT_EQ(book.state().decisions[2].rank, 2U);
  EXPECT_EQ(book.state().counts.windows_decided, 2U);
}

TEST_F(Begun, AppliesARepeatedProposalOnceAndAnswersAsTheFirstTime) {
  const auto entry = decide_window({9, 5}, 1, 1);
  expect(entry, verdict::applied);
  for (int again = 0; again < 3; ++again) {
    const auto outcome = apply(book, entry);
    EXPECT_EQ(outcome.result, verdict::applied);
    EXPECT_TRUE(outcome.repeated);
  }
  const auto older = apply(book, decide_window({9, 4}, 1, 2));
  EXPECT_TRUE(older.repeated);
  EXPECT_EQ(book.state().last_window, 1U);
  EXPECT_EQ(book.state().counts.windows_decided, 1U);
  EXPECT_EQ(book.state().counts.duplicated, 4U);
}

TEST_F(Begun, RemembersARefusalToo) {
  const auto refused = decide_window({9, 1}, 1, 1, 2); // generation 2 is not formed
  expect(refused, verdict::generation_passed);
  expect(form_generation(next(), 1, 2), verdict::applied);
  const auto outcome = apply(book, refused);
  EXPECT_EQ(outcome.result, verdict::generation_passed);
  EXPECT_TRUE(outcome.repeated);
}

TEST_F(Begun, RefusesAndCountsWhatAnOldArbitratorSays) {
  expect(begin_term({2, 1}, 5, 2), verdict::applied);
  EXPECT_EQ(book.state().leader, 2U);
  expect(decide_window(next(), 1, 1), verdict::stale_term);
  expect(form_generation(next(), 1, 2), verdict::stale_term);
  expect(publish_policy(next(), 1, 1), verdict::stale_term);
  EXPECT_EQ(book.state().counts.stale_refused, 3U);
  EXPECT_EQ(book.state().last_window, 0U);
  EXPECT_EQ(book.state().policy, nullptr);
}

TEST_F(Begun, GivesATermToOneArbitrator) {
  expect(begin_term({2, 1}, 2, 2), verdict::applied);
  expect(begin_term({3, 1}, 2, 3), verdict::stale_term);
  expect(begin_term({3, 2}, 1, 3), verdict::stale_term);
  EXPECT_EQ(book.state().leader, 2U);
  EXPECT_EQ(book.state().term, 2U);
}

TEST_F(Begun, RefusesATermThatNobodyBegan) {
  expect(decide_window(next(), 2, 1), verdict::term_not_begun);
  EXPECT_EQ(book.state().counts.refused, 1U);
  EXPECT_EQ(journal().state().term, 0U);
}

TEST_F(Begun, RefusesAWindowThatWasDecidedOrPassed) {
  expect(decide_window(next(), 1, 5), verdict::applied);
  expect(decide_window(next(), 1, 5), verdict::window_passed);
  expect(decide_window(next(), 1, 4), verdict::window_passed);
  expect(begin_term(next(), 2), verdict::applied);
  expect(decide_window(next(), 2, 5), verdict::window_passed); // none twice, by no arbitrator
  expect(decide_window(next(), 2, 6), verdict::applied);
  EXPECT_EQ(book.state().counts.refused, 3U);
}

TEST_F(Begun, GoesBackToAWindowOnlyInANewTerm) {
  expect(decide_window(next(), 1, 9), verdict::applied);
  expect(form_generation(next(), 1, 2, 2, 4), verdict::term_needed);
  EXPECT_EQ(book.state().generation.generation, 1U);
  expect(begin_term(next(), 2), verdict::applied);
  expect(form_generation(next(), 2, 2, 2, 4), verdict::applied);
  EXPECT_EQ(book.state().decisions.size(), 3U); // window 9's: they are in force until the next
  expect(decide_window(next(), 2, 3, 2, 2), verdict::window_passed);
  expect(decide_window(next(), 2, 4, 2, 2), verdict::applied);
  expect(form_generation(next(), 2, 3, 2, 5), verdict::applied); // forward needs no new term
}

TEST_F(Begun, HoldsDecisionsToTheNewestGeneration) {
  expect(form_generation(next(), 1, 2), verdict::applied);
  expect(form_generation(next(), 1, 2), verdict::generation_passed);
  expect(decide_window(next(), 1, 1, 1), verdict::generation_passed);
  expect(decide_window(next(), 1, 1, 2), verdict::applied);
}

TEST_F(Begun, KeepsTheNewestPolicyAndTheNewestCheckpoint) {
  expect(publish_policy(next(), 1, 1, 10, 20), verdict::applied);
  expect(publish_policy(next(), 1, 3, 11, 0), verdict::applied);
  expect(publish_policy(next(), 1, 3), verdict::policy_passed);
  expect(publish_policy(next(), 1, 2), verdict::policy_passed);
  ASSERT_NE(book.state().policy, nullptr);
  EXPECT_EQ(book.state().policy->version, 3U);
  ASSERT_NE(book.state().learner_checkpoint, nullptr);
  EXPECT_EQ(book.state().learner_checkpoint->size(), 20U); // version 3 came without one
}

TEST_F(Begun, KeepsTheEndOfTrainingUntilAnotherGenerationIsFormed) {
  EXPECT_EQ(book.state().end, training_ended());
  expect(end_training(next(), 1, 2), verdict::generation_passed);
  expect(end_training(next(), 1, 1, 2), verdict::applied);
  EXPECT_EQ(book.state().end.rank, 2U);
  expect(begin_term({2, 1}, 2, 2), verdict::applied);
  EXPECT_EQ(book.state().end.generation, 1U) << "a new leader knows";
  expect(end_training(next(), 1, 1, 0), verdict::stale_term);
  expect(form_generation({2, 2}, 2, 2), verdict::applied);
  EXPECT_EQ(book.state().end, training_ended()) << "training goes on";
}

TEST_F(Begun, KeepsWhoseThePlacesOfAClusterFileAre) {
  using places = std::map<std::uint32_t, std::string>;
  expect(give_place(next(), 1, 4, "guest"), verdict::applied);
  expect(give_place(next(), 1, 5, "other"), verdict::applied);
  expect(give_place(next(), 1, 6, "guest"), verdict::applied);
  EXPECT_EQ(book.state().places, (places{{5, "other"}, {6, "guest"}})) << "a host has one place";
  expect(begin_term({2, 1}, 2, 2), verdict::applied);
  expect(give_place(next(), 1, 5, "late"), verdict::stale_term);
  expect(give_place({2, 2}, 2, 1, "guest", 78), verdict::applied);
  EXPECT_EQ(book.state().places, (places{{1, "guest"}})) << "in another file ranks mean others";
}

TEST_F(Begun, KeepsTheNewestLayoutOfShards) {
  expect(lay_out_shards(next(), 1, 77), verdict::applied);
  EXPECT_EQ(book.state().shards.serving, (std::vector<std::uint32_t>{1, 3}));
  expect(begin_term({2, 1}, 2, 2), verdict::applied);
  expect(lay_out_shards(next(), 1, 78), verdict::stale_term);
  EXPECT_EQ(book.state().shards.cluster_digest, 77U);
}

TEST_F(Begun, ForgetsTheClientThatWasSilentLongest) {
  for (std::uint64_t client = 2; client <= max_clients; ++client)
    expect(begin_term({client, 1}, client), verdict::applied);
  EXPECT_EQ(book.state().clients.size(), max_clients);
  const auto term = book.state().term;
  expect(form_generation({1, 99}, term, 2), verdict::applied); // now client 2 is the oldest
  expect(begin_term({5000, 1}, term + 1), verdict::applied);
  EXPECT_EQ(book.state().clients.size(), max_clients);
  EXPECT_TRUE(book.state().clients.contains(1));
  EXPECT_FALSE(book.state().clients.contains(2));
}

TEST_F(Begun, GoesOnAfterADamagedEntry) {
  const auto digest = book.state().digest;
  const word_list nonsense = {1, 2, 3};
  EXPECT_EQ(book.apply(nonsense).result, verdict::damaged);
  EXPECT_EQ(book.apply({}).result, verdict::damaged);
  EXPECT_EQ(book.state().counts.damaged, 2U);
  EXPECT_EQ(book.state().position, 4U);
  EXPECT_NE(book.state().digest, digest);
  expect(decide_window(next(), 1, 1), verdict::applied);
}

TEST(Journal, TellsOrdersApartByTheirDigest) {
  journal one;
  journal other;
  apply(one, begin_term({1, 1}, 1));
  apply(one, begin_term({2, 1}, 2));
  apply(other, begin_term({2, 1}, 2));
  EXPECT_NE(one.state().digest, other.state().digest);
  apply(other, begin_term({1, 1}, 1));
  EXPECT_EQ(one.state().position, other.state().position);
  EXPECT_NE(one.state().digest, other.state().digest);
}

} // namespace
} // namespace dynamix::replication
