#include "node/reports/observation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace dynamix::node {
namespace {

/// Computes 1 ms a sample times `slow`, and waits for whoever takes 3 ms; 4 ms of each step nobody computes.
observed_worker at_32(const std::string& name, double slow, double slowest) {
  return {.name = name,
          .steps = 100,
          .batch = 32,
          .step_seconds = 0.004 + 0.032 * slowest,
          .compute_seconds = 0.032 * slow,
          .exchange_seconds = 0.004 + 0.032 * (slowest - slow),
          .data_seconds = 0,
          .points = {{32, 0.032 * slow}},
          .parts = std::vector<observed_part>(8, {0.004 + 0.032 * slowest, 0.032 * slow}),
          .lines = {"run = dynamix.join(model, optimizer)", "loader = run.loader(dataset, batch_size=32)"}};
}

bool tells(const std::vector<std::string>& sentences, const std::string& part) {
  return std::ranges::any_of(sentences, [&](const auto& each) { return each.find(part) != std::string::npos; });
}

TEST(Observation, EstimatesWhatOtherSharesOfTheSameBatchGive) {
  const auto seen = observe({at_32("ada", 1, 3), at_32("ben", 3, 3)});
  EXPECT_EQ(seen.batches, (std::vector<std::uint32_t>{48, 16}));
  EXPECT_NEAR(seen.samples_per_second, 64 / 0.1, 1e-6);
  EXPECT_NEAR(seen.gain, 0.1 / 0.052, 1e-6); // 48 ms, and the 4 that nobody computes in
}

TEST(Observation, TakesAFixedCostFromStepsOfAnotherSize) {
  auto slow = at_32("ben", 3, 3);
  slow.points = {{8, 0.048}, {32, 0.096}}; // 32 ms of it do not grow
  const auto seen = observe({at_32("ada", 1, 3), slow});
  EXPECT_GT(seen.batches[0], 48U); // less is gained by a sample that moves, so more of them do
  EXPECT_LT(seen.gain, 0.1 / 0.052);
}

TEST(Observation, PromisesNoMoreThanAPartOfWhatTheSlowestComputes) {
  // Of a noisy machine: computing takes 6 ms of 24 in the mean, and a curve of other steps says 2.
  auto ada = at_32("ada", 1, 1);
  ada.step_seconds = 0.024;
  ada.compute_seconds = 0.006;
  ada.points = {{32, 0.0018}};
  auto ben = ada;
  ben.points = {{32, 0.002}};
  const auto seen = observe({ada, ben});
  EXPECT_GE(seen.gain, 1);
  EXPECT_LT(seen.gain, 1.02);
}

TEST(Observation, TakesNoSlopeFromABatchThatIsNearlyTheUsualOne) {
  auto slow = at_32("ben", 3, 3);
  slow.points = {{30, 0.1}, {32, 0.096}}; // an epoch's last steps, beside a neighbour
  EXPECT_NEAR(observe({at_32("ada", 1, 3), slow}).gain, 0.1 / 0.052, 1e-6);
}

TEST(Observation, SaysWhoIsSlowAndWhatToWrite) {
  const auto told = to_sentences(observe({at_32("ada", 1, 3), at_32("ben", 3, 3)}));
  EXPECT_TRUE(
      tells(told, "ben is slow: it computes 96.0 ms per step, 3.0 times as long per sample as the median worker"));
  EXPECT_TRUE(tells(told, "equal batches cost 48 % of the samples per second; two lines would give 1.92 times as many "
                          "(1.92 to 1.92, estimated; 64 samples per step shared as 48, 16); here they are:"));
  EXPECT_TRUE(tells(told, "    run = dynamix.join(model, optimizer)"));
}

TEST(Observation, SaysThatACpuWasMissing) {
  auto slow = at_32("ben", 3, 3);
  slow.cpu_wait_share = 2.0 / 3;
  EXPECT_TRUE(tells(to_sentences(observe({at_32("ada", 1, 3), slow})),
                    "as the median worker; no CPU was free for it for 64.0 ms of that"));
  slow.cpu_wait_share = 0.05;
  EXPECT_TRUE(tells(to_sentences(observe({at_32("ada", 1, 3), slow})),
                    "its processor is that much slower, or the script does more there; no CPU was free for it for 4.80 "
                    "ms of that"));
}

TEST(Observation, SaysNoCauseThatNobodyHasMeasured) {
  const auto told = to_sentences(observe({at_32("ada", 1, 3), at_32("ben", 3, 3)}));
  EXPECT_TRUE(tells(told, "as the median worker; its agent has measured nothing that says why"));
  EXPECT_FALSE(tells(told, "the machine was busy"));
}

TEST(Observation, SaysFirstThatTheMachineWasBusy) {
  auto ada = at_32("ada", 1, 3);
  auto ben = at_32("ben", 3, 3);
  ada.cpu_wait_share = 0.1;
  ben.cpu_wait_share = 0.5;
  EXPECT_NE(to_sentences(observe({ada, ben}))
                .front()
                .find("the machine was busy: of each step's computing no CPU was free for 48.0 of 96.0 ms for ben. "),
            std::string::npos);
}

/// As `at_32`, where each other part of the run was `by` times slower, and the others faster.
observed_worker unsteady(const std::string& name, double slow, double by, bool begins_slow) {
  auto worker = at_32(name, slow, 2);
  for (std::size_t part = 0; part < worker.parts.size(); ++part)
    worker.parts[part].compute_seconds *= (part % 2 == 0) == begins_slow ? by : 2 - by;
  return worker;
}

TEST(Observation, RecommendsNothingThatPartsOfTheRunDisagreeAbout) {
  const auto steady = observe({unsteady("ada", 1, 1.1, true), unsteady("ben", 2, 1.1, false)});
  ASSERT_TRUE(steady.gain_error);
  EXPECT_GT(*steady.gain_error, 0);
  EXPECT_TRUE(tells(to_sentences(steady), "here they are:"));
  const auto told = to_sentences(observe({unsteady("ada", 1, 1.8, true), unsteady("ben", 1.3, 1.8, false)}));
  EXPECT_TRUE(tells(told, "that equal batches cost anything is not sure"));
  EXPECT_FALSE(tells(told, "dynamix.join"));
}

TEST(Observation, RecommendsNothingWhereTooFewPartsOfTheRunWereSeen) {
  auto slow = at_32("ben", 3, 3);
  slow.parts.assign(8, {});
  const auto told = to_sentences(observe({at_32("ada", 1, 3), slow}));
  EXPECT_TRUE(tells(told, "too few steps were seen to say how surely"));
  EXPECT_FALSE(tells(told, "dynamix.join"));
}

TEST(Observation, RecommendsNothingForAGainThatNobodyNotices) {
  const auto seen = observe({at_32("ada", 1, 1.07), at_32("ben", 1.07, 1.07)});
  EXPECT_GT(seen.gain, 1.02);
  const auto told = to_sentences(seen);
  EXPECT_TRUE(tells(told, "equal batches cost nothing here that would be noticed"));
  EXPECT_FALSE(tells(told, "dynamix.join"));
}

TEST(Observation, PromisesNothingWhereAllAreEquallyFast) {
  const auto seen = observe({at_32("ada", 1, 1), at_32("ben", 1, 1)});
  EXPECT_EQ(seen.gain, 1);
  EXPECT_TRUE(tells(to_sentences(seen), "equal batches cost nothing here"));
}

TEST(Observation, NamesADataLoaderThatIsWaitedFor) {
  auto fed = at_32("ada", 1, 1);
  fed.data_seconds = 0.02;
  EXPECT_TRUE(
      tells(to_sentences(observe({fed, at_32("ben", 1, 1)})), "ada waits 20.0 ms of each step for its data loader"));
}

TEST(Observation, SaysThatTooLittleWasSeen) {
  auto few = at_32("ada", 1, 1);
  few.points.clear();
  few.problem = "the agent is gone";
  const auto told = to_sentences(observe({few, at_32("ben", 1, 1)}));
  EXPECT_TRUE(tells(told, "too few steps were observed"));
  EXPECT_TRUE(tells(told, "ada: its agent was not told of its steps: the agent is gone"));
}

TEST(Observation, ReadsNoNonsense) {
  EXPECT_FALSE(parse_observed_worker("", "ada"));
  EXPECT_FALSE(parse_observed_worker(R"({"steps": -1})", "ada"));
  const std::string begin = R"({"steps": 9, "batch": 32, "step_seconds": 1e300, "compute_seconds": -1,
    "exchange_seconds": 0.1, "data_seconds": 0, "observing_seconds": 0, "other_models": 0, "problem": "", "lines": [],
    "parts": [[0.2, 1e300], [-1, 0.1]], "points": )";
  const auto read = parse_observed_worker(begin + "[[8, 0.1], [8, 0.2], [4, 0.1], [16, -1], [32, 0.3]]}", "ada");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->step_seconds, 86'400);
  EXPECT_EQ(read->compute_seconds, 0);
  ASSERT_EQ(read->points.size(), 2U);
  EXPECT_EQ(read->points[1].batch, 32);
  ASSERT_EQ(read->parts.size(), 2U);
  EXPECT_EQ(read->parts[0].compute_seconds, 86'400);
  EXPECT_EQ(read->parts[1].step_seconds, 0);
}

TEST(Observation, IsKeptAndCompared) {
  const kept_estimate kept{.command = {"torchrun", "train.py"}, .workers = 2, .samples_per_second = 640, .gain = 1.5};
  const auto read = parse_kept_estimate(to_json(kept));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->command, kept.command);
  EXPECT_NE(compare(*read, 912).find("now 912 samples/s, 1.43 times as many (5 % below the estimate)"),
            std::string::npos);
  EXPECT_FALSE(parse_kept_estimate(R"({"command": [], "workers": 2, "samples_per_second": 0, "gain": 1})"));
}

} // namespace
} // namespace dynamix::node
