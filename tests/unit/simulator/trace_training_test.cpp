#include "simulator/trace_training.hpp"
#include "tests/unit/simulator/small_cluster.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace dynamix::simulator {
namespace {

using testing::small_cluster;

scenario unequal(std::uint32_t workers) {
  auto made = small_cluster(workers);
  made.file.arbitrator.policy = cluster::policy_kind::stigmergic;
  return made;
}

trace_training_options few_rounds(std::uint32_t jobs, std::uint64_t seed = 1, bool ppo = false) {
  return {{.seed = seed, .environments = 3, .jobs = jobs}, 4, false, ppo};
}

policy::trace_policy networks_of(const trace_training& training) {
  policy::trace_policy read;
  EXPECT_EQ(policy::read_trace_policy(training.current().parameters, read), "");
  return read;
}

TEST(TraceTraining, LearnsTheSameForASeedOnAnyNumberOfThreads) {
  const auto trained = [](trace_training_options options) {
    trace_training training({unequal(3), unequal(2)}, options);
    for (int round = 0; round < 4; ++round)
      training.run_round();
    return training.save();
  };
  for (const bool ppo : {false, true}) {
    const auto alone = trained(few_rounds(1, 1, ppo));
    EXPECT_EQ(trained(few_rounds(3, 1, ppo)), alone);
    EXPECT_NE(trained(few_rounds(1, 2, ppo)), alone);
  }
}

TEST(TraceTraining, GoesOnWithEitherLearnerAndNotWithTheOthers) {
  for (const bool ppo : {false, true}) {
    trace_training training({unequal(2)}, few_rounds(1, 1, ppo));
    EXPECT_GT(training.run_round().transitions, 0);
    trace_training resumed({unequal(2)}, few_rounds(1, 1, ppo), training.save());
    EXPECT_EQ(networks_of(resumed).networks[1].weights(), networks_of(training).networks[1].weights());
    EXPECT_GT(resumed.run_round().transitions, 0);
    EXPECT_NE(networks_of(resumed).networks[1].weights(), networks_of(training).networks[1].weights());
    EXPECT_THROW(trace_training({unequal(2)}, few_rounds(1, 1, !ppo), training.save()), std::invalid_argument);
  }
}

TEST(TraceTraining, GoesFromFewWorkersToManyWhoBeginAsCopies) {
  trace_training training({unequal(4), unequal(2)}, few_rounds(1));
  training.run_round();
  training.run_round();
  const auto two = networks_of(training);
  ASSERT_EQ(two.networks.size(), 2U);
  EXPECT_NE(two.networks[0].weights(), two.networks[1].weights()) << "each learns by itself";
  trace_training resumed({unequal(4), unequal(2)}, few_rounds(1), training.save());
  const auto four = networks_of(resumed); // its stage has begun, nothing in it was learned yet
  ASSERT_EQ(four.networks.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_EQ(four.networks[i].weights(), two.networks[i % 2].weights()) << i;
  EXPECT_EQ(resumed.updates(), 2U);
  EXPECT_GT(resumed.run_round().transitions, 0);
  EXPECT_EQ(resumed.updates(), 3U);
}

/// What each learner is, as numbers.
std::vector<std::vector<double>> learners_of(const trace_training& training) {
  storage::tensor_file saved;
  EXPECT_EQ(storage::decode(training.save(), saved), "");
  std::vector<std::vector<double>> rows;
  if (const auto* record = saved.find("learner.traces"); record != nullptr)
    for (std::int64_t i = 0; i < record->shape[0]; ++i) {
      auto& row = rows.emplace_back(static_cast<std::size_t>(record->shape[1]));
      const auto bytes = row.size() * sizeof(double);
      std::memcpy(row.data(), record->data.data() + static_cast<std::size_t>(i) * bytes, bytes);
    }
  return rows;
}

TEST(TraceTraining, CopiesAllOfALearnerByPpoForThoseWhoAreNew) {
  auto options = few_rounds(1, 1, true);
  options.environments = 6; // who draws in half of the steps still fills a minibatch
  trace_training training({unequal(4), unequal(2)}, options);
  training.run_round();
  training.run_round();
  trace_training resumed({unequal(4), unequal(2)}, options, training.save());
  const auto learners = learners_of(resumed);
  ASSERT_EQ(learners.size(), 4U);
  EXPECT_NE(learners[0], learners[1]);
  EXPECT_EQ(learners[2], learners[0]);
  EXPECT_EQ(learners[3], learners[1]);
  resumed.run_round();
  const auto later = learners_of(resumed);
  EXPECT_NE(later[2], later[0]) << "each goes on by itself";
}

TEST(TraceTraining, LearnsByPpoOnlyFromWhatTheNetworksOfTheRoundDrew) {
  for (const bool ppo : {false, true}) {
    auto endless = unequal(2); // an episode's first steps are not learned from
    endless.file.training.epochs = 10'000;
    trace_training training({endless}, few_rounds(1, 1, ppo));
    const double first = training.run_round().transitions;
    const double workers = 3 * 2; // of all environments
    const double steps = endless.file.ppo.horizon * endless.file.arbitrator.window_steps;
    EXPECT_EQ(first, workers * (steps - 2)) << "one is not measured, and one has none before it";
    EXPECT_EQ(training.run_round().transitions, workers * (ppo ? steps - 1 : steps));
  }
}

TEST(TraceTraining, RefusesWhatItCannotGoOnFrom) {
  trace_training training({unequal(2)}, few_rounds(1));
  training.run_round();
  auto masked = few_rounds(1);
  masked.masked = true;
  try {
    trace_training({unequal(2)}, masked, training.save());
    FAIL() << "not refused";
  } catch (const std::invalid_argument& refused) {
    EXPECT_STREQ(refused.what(), "it was trained with traces");
  }
  EXPECT_THROW(trace_training({unequal(2)}, few_rounds(1), training.current().parameters), std::invalid_argument);
  storage::tensor_file saved;
  ASSERT_EQ(storage::decode(training.save(), saved), "");
  for (auto& record : saved.tensors)
    if (record.name == "learner.traces")
      for (const double wrong : {std::nan(""), -1.0}) { // behind the weights stand moments and counts
        std::memcpy(record.data.data() + (policy::trace_learner::saved_numbers - 2) * sizeof wrong, &wrong,
                    sizeof wrong);
        EXPECT_THROW(trace_training({unequal(2)}, few_rounds(1), storage::encode(saved)), std::invalid_argument);
      }
  EXPECT_THROW(trace_training({}, few_rounds(1)), std::invalid_argument);
}

TEST(Simulation, WorkersShareWorkByTracesAlone) {
  auto what = unequal(4);
  what.file.simulation.slow_every_seconds = 2;
  what.file.simulation.slow_seconds = 1;
  what.file.training.target_accuracy = 0.6;
  what.file.arbitrator.mode = cluster::policy_mode::infer;
  const auto seconds = [&](cluster::policy_kind policy) {
    what.file.arbitrator.policy = policy;
    simulation run(what, std::vector<std::uint8_t>{}, 1);
    while (run.advance()) {
    }
    EXPECT_EQ(run.result().failure, "");
    return run.result().seconds_to_target;
  };
  const double traces = seconds(cluster::policy_kind::stigmergic);
  EXPECT_GT(traces, 0);
  EXPECT_LT(traces, 0.95 * seconds(cluster::policy_kind::lb_bsp));
  EXPECT_LT(seconds(cluster::policy_kind::step_oracle), traces);
}

TEST(Simulation, TracesBeginAnewWithAGeneration) {
  auto what = unequal(3);
  what.file.arbitrator.mode = cluster::policy_mode::infer;
  for (auto& host : what.file.hosts) {
    if (host.name == "worker-1")
      host.leave_at_seconds = 1;
    if (host.name == "worker-2")
      host.join_at_seconds = 2;
  }
  simulation run(what, std::vector<std::uint8_t>{}, 1);
  std::uint64_t moves = 0;
  for (int window = 0; window < 60 && run.advance(); ++window)
    for (const auto& worker : run.window().workers)
      moves += worker.report.reflex.moves;
  EXPECT_EQ(run.result().failure, "");
  EXPECT_GE(run.world().generation(), 2U);
  EXPECT_GT(moves, 0U) << "told in the reports";
}

} // namespace
} // namespace dynamix::simulator
