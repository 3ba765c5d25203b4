#include "actors/aggregator/evaluation_gate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dynamix::actors {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint32_t window_steps = 20;
const evaluation_sender first{.host = "w0", .rank = 0};
const evaluation_sender second{.host = "w1", .rank = 1};
const evaluation_sender shard{.host = "s0", .rank = std::nullopt};

std::uint64_t taken_of(evaluation_gate& gate, const evaluation_sender& from, std::uint64_t attempts) {
  std::uint64_t taken = 0;
  for (std::uint64_t i = 0; i < attempts; ++i)
    taken += gate.judge(from, 1000 + i).refusal.empty() ? 1 : 0;
  return taken;
}

TEST(EvaluationGate, TakesNoMoreThanTrainingHasSteps) {
  evaluation_gate gate(window_steps, true);
  gate.formed(1, 0);
  const auto most = evaluation_gate::most_at_once(window_steps);
  EXPECT_EQ(taken_of(gate, first, 385'000), most);
  gate.closed(3);
  EXPECT_EQ(taken_of(gate, {.host = "w0", .rank = 0}, 0), 0U);
  std::uint64_t taken = 0;
  for (int i = 0; i < 1000; ++i)
    taken += gate.judge(first, 400'000).refusal.empty() ? 1 : 0;
  EXPECT_EQ(taken, 3U * window_steps);
}

TEST(EvaluationGate, NeverSavesUpMoreThanAtTheBeginning) {
  evaluation_gate gate(window_steps, true);
  gate.formed(1, 0);
  taken_of(gate, first, 1);
  gate.closed(1000);
  EXPECT_EQ(taken_of(gate, first, 1'000'000), evaluation_gate::most_at_once(window_steps));
}

TEST(EvaluationGate, TakesOneAStepOfWhoeverEvaluatesAfterEach) {
  evaluation_gate gate(window_steps, true);
  gate.formed(1, 0);
  for (std::uint64_t step = 1; step <= 10'000; ++step) {
    ASSERT_THAT(gate.judge(first, step).refusal, IsEmpty()) << step;
    if (step % window_steps == 0)
      gate.closed(1);
  }
}

TEST(EvaluationGate, SaysOnceThatItRefusesAndCounts) {
  evaluation_gate gate(window_steps, true);
  gate.formed(1, 0);
  const auto refused = gate.judge(second, 20);
  EXPECT_THAT(refused.refusal, HasSubstr("first member, of rank 0"));
  EXPECT_TRUE(refused.first);
  EXPECT_FALSE(gate.judge(second, 20).first);
  EXPECT_EQ(gate.formed(1, 0), 0U) << "the same again";
  EXPECT_EQ(gate.formed(2, 0), 2U);
  EXPECT_TRUE(gate.judge(second, 20).first);
}

TEST(EvaluationGate, BelievesTheFirstMemberAloneUnlessTrainingIsTheUsersOwn) {
  evaluation_gate built_in(window_steps, true);
  EXPECT_THAT(built_in.judge(second, 20).refusal, IsEmpty()) << "it is not known yet who is the first";
  built_in.formed(1, 0);
  EXPECT_THAT(built_in.judge(first, 20).refusal, IsEmpty());
  EXPECT_FALSE(built_in.judge(second, 20).refusal.empty());
  EXPECT_THAT(built_in.judge(shard, 20).refusal, IsEmpty()) << "it has judged its own workers";
  evaluation_gate client(window_steps, false);
  client.formed(1, 0);
  EXPECT_THAT(client.judge(second, 20).refusal, IsEmpty());
}

TEST(EvaluationGate, DoesNotLetAWorkerTakeBackWhatWasEvaluated) {
  evaluation_gate gate(window_steps, true);
  gate.formed(1, 0);
  EXPECT_THAT(gate.judge(first, 400).refusal, IsEmpty());
  EXPECT_THAT(gate.judge(first, 0).refusal, HasSubstr("step 0 is before step 400"));
  EXPECT_THAT(gate.judge(first, 400).refusal, IsEmpty());
  gate.formed(2, 0);
  EXPECT_THAT(gate.judge(first, 200).refusal, IsEmpty()) << "from a checkpoint";
}

TEST(EvaluationGate, TakesNothingFromNobody) {
  evaluation_gate gate(window_steps, false);
  EXPECT_FALSE(gate.judge({}, 1).refusal.empty());
}

} // namespace
} // namespace dynamix::actors
