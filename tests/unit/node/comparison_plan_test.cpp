#include "node/experiments/comparison_plan.hpp"
#include "storage/atomic_file.hpp"
#include "storage/tensor_file.hpp"
#include "tests/temporary_directory.hpp"
#include "tests/unit/node/sample_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dynamix::node {
namespace {

using namespace testing;
using cluster::policy_kind;
using ::testing::ElementsAre;

run_outcome ended(double seconds, double accuracy) {
  return {.seconds_to_target = seconds, .final_accuracy = accuracy};
}

TEST(ComparisonPlan, GridHoldsPowersOfTwoWithinTheLimitsAndTheInitialBatch) {
  EXPECT_THAT(static_batch_grid({.initial = 64, .lowest = 32, .highest = 256}), ElementsAre(32, 64, 128, 256));
  EXPECT_THAT(static_batch_grid({.initial = 100, .lowest = 33, .highest = 300}), ElementsAre(64, 100, 128, 256));
  EXPECT_THAT(static_batch_grid({.initial = 3, .lowest = 3, .highest = 3}), ElementsAre(3));
}

TEST(ComparisonPlan, TheBestBatchIsTheOneThatReachesTheTargetSoonest) {
  EXPECT_EQ(best_candidate({{.batch = 32, .runs = {ended(9, 0), ended(11, 0)}},
                            {.batch = 64, .runs = {ended(8, 0), ended(10, 0)}},
                            {.batch = 128, .runs = {ended(1, 0), ended(-1, 0.99)}}}),
            1U)
      << "one run that never reached it makes the mean infinite";
}

TEST(ComparisonPlan, AccuracyDecidesWhereNoneReachesTheTarget) {
  EXPECT_EQ(best_candidate({{.batch = 32, .runs = {ended(-1, 0.7)}},
                            {.batch = 64, .runs = {ended(-1, 0.8)}},
                            {.batch = 128, .runs = {ended(-1, 0.8)}}}),
            1U);
  run_outcome failed = ended(-1, 0.9);
  failed.failure = "out of memory";
  EXPECT_EQ(best_candidate({{.batch = 32, .runs = {failed}}, {.batch = 64, .runs = {ended(-1, 0.1)}}}), 1U);
}

TEST(ComparisonPlan, ARunIsKeptOnlyWhenItIsFinishedAndTheSame) {
  const run_outcome finished{.fingerprint = 7};
  EXPECT_EQ(decide_resume(false, std::nullopt, 7), resume_decision::begin);
  EXPECT_EQ(decide_resume(true, finished, 7), resume_decision::keep);
  EXPECT_EQ(decide_resume(true, std::nullopt, 7), resume_decision::repeat_unfinished);
  EXPECT_EQ(decide_resume(true, finished, 8), resume_decision::repeat_changed);
}

TEST(ComparisonPlan, FingerprintsTellRunsApart) {
  const auto file = pair_file();
  const auto planned = plan_run(file, policy_kind::static_best, 128, 5, true, "out");
  EXPECT_EQ(planned.directory, "out/pair/static-best-128-seed-5");
  EXPECT_EQ(planned.file.seed, 5U);
  EXPECT_EQ(planned.file.arbitrator.static_batch, 128U);
  EXPECT_EQ(plan_run(file, policy_kind::static_best, 128, 5, true, "elsewhere").fingerprint, planned.fingerprint);
  EXPECT_NE(plan_run(file, policy_kind::static_best, 64, 5, true, "out").fingerprint, planned.fingerprint);
  EXPECT_NE(plan_run(file, policy_kind::static_best, 128, 6, true, "out").fingerprint, planned.fingerprint);
  EXPECT_NE(plan_run(file, policy_kind::goodput, 0, 5, true, "out").fingerprint, planned.fingerprint);
  EXPECT_NE(plan_run(file, policy_kind::static_best, 128, 5, false, "out").fingerprint, planned.fingerprint);
}

TEST(ComparisonPlan, AProfileThatWasWrittenAnewIsAnotherRun) {
  const temporary_directory directory;
  auto file = pair_file();
  file.simulation.profile = directory.path() + "/profile.toml";
  ASSERT_EQ(storage::write_file_atomically(file.simulation.profile, std::string("one")), "");
  const auto before = fingerprint_of(file, true);
  const auto live = fingerprint_of(file, false);
  ASSERT_EQ(storage::write_file_atomically(file.simulation.profile, std::string("two")), "");
  EXPECT_NE(fingerprint_of(file, true), before);
  EXPECT_EQ(fingerprint_of(file, false), live) << "which training does not read";
}

TEST(ComparisonPlan, APolicyFileGoesToItsOwnKindOnly) {
  const temporary_directory directory;
  auto file = pair_file();
  file.arbitrator.policy_file = directory.path() + "/policy.dynamix";
  ASSERT_EQ(storage::write_file_atomically(file.arbitrator.policy_file,
                                           storage::encode({.metadata = {{"kind", "ppo"}}, .tensors = {}})),
            "");
  EXPECT_EQ(plan_run(file, policy_kind::ppo, 0, 1, true, "o").file.arbitrator.policy_file, file.arbitrator.policy_file);
  EXPECT_EQ(plan_run(file, policy_kind::ppo_simple, 0, 1, true, "o").file.arbitrator.policy_file, "");
  EXPECT_EQ(plan_run(file, policy_kind::goodput, 0, 1, true, "o").file.arbitrator.policy_file, "");
}

} // namespace
} // namespace dynamix::node
