#include "tests/temporary_directory.hpp"
#include "tests/unit/exchange/ranks.hpp"
#include "tiny_training.hpp"
#include "trainer/training_loop.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <thread>

namespace dynamix::trainer {
namespace {

/// Batch sizes of four ranks after each window; rank 3 goes down to nothing for a while.
const std::vector<std::vector<std::uint32_t>> batches_by_window{
    {20, 4, 9, 1}, {7, 30, 2, 0}, {8, 8, 8, 0}, {1, 16, 40, 5}, {12, 3, 3, 25}, {33, 2, 6, 10}, {5, 5, 5, 5}};

/// The decision on window w reaches rank r up to two windows late, and not the same for all ranks.
std::vector<rank_options> four_ranks(std::uint32_t window_steps) {
  std::vector<rank_options> options(4);
  storage::splitmix64 random(21);
  for (std::uint64_t window = 1; window <= batches_by_window.size(); ++window)
    for (std::uint32_t rank = 0; rank < 4; ++rank)
      options[rank].arrivals[window + random.below(3)].push_back(
          decide(window, rank, batches_by_window[window - 1][rank], (window + 1) * window_steps + 1));
  return options;
}

TEST(TrainingLoop, EndsWithTheSameBitsOnAllRanksAndWithTheParametersOfOneProcess) {
  const auto train = tiny_dataset(2300, 1);
  const auto test = tiny_dataset(100, 2);
  const auto results = train_ranks(four_ranks(tiny_options().window_steps), train, test);
  ASSERT_GT(results[0].steps, 50U);
  EXPECT_GE(results[0].decisions.applied, 3U);
  EXPECT_EQ(results[0].samples, 2300U);
  EXPECT_EQ(results[0].epochs, 1U);
  for (const auto& result : results) {
    EXPECT_EQ(result.end.how, ending::completed);
    EXPECT_EQ(result.end.reason, "epochs completed");
    EXPECT_TRUE(same_bits(result, results[0]));
    ASSERT_EQ(result.windows.size(), results[0].windows.size());
    for (std::size_t i = 0; i < result.windows.size(); ++i) {
      EXPECT_EQ(result.windows[i].decision, results[0].windows[i].decision);
      EXPECT_EQ(result.windows[i].global_batch, results[0].windows[i].global_batch);
    }
  }

  // One worker with the same global batch in each window. What arrives with a window's end holds from the second step
  // of the next one on.
  rank_options one;
  one.loop.batch.initial = 32;
  one.loop.training = tiny_options().training;
  const auto& windows = results[0].windows;
  for (std::size_t i = 1; i < windows.size(); ++i)
    one.arrivals[windows[i].window - 1 == 1 ? 0 : windows[i].window - 2].push_back(
        decide(i, 0, static_cast<std::uint32_t>(windows[i].global_batch), windows[i].first_step + 1));
  const auto alone = train_ranks({one}, train, test);
  EXPECT_EQ(alone[0].steps, results[0].steps);
  EXPECT_LT(largest_difference(alone[0], results[0]), 1e-4);
  EXPECT_NEAR(alone[0].final_accuracy, results[0].final_accuracy, 0.011);
}

struct optimizer_case {
  cluster::optimizer_kind kind;
  cluster::learning_rate_rule rule;
};

class Resume : public testing::TestWithParam<optimizer_case> {};

TEST_P(Resume, InMidEpochGivesTheSameBitsAsTheRunThatWasNotInterrupted) {
  const auto train = tiny_dataset(600, 3);
  const auto test = tiny_dataset(60, 4);
  const temporary_directory directory;
  std::vector<rank_options> whole(2);
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    auto& options = whole[rank];
    options.loop.training.optimizer = GetParam().kind;
    options.loop.training.rule = GetParam().rule;
    options.loop.training.learning_rate = 0.005;
    options.loop.training.epochs = 2;
    options.loop.training.checkpoint_every_epochs = 0.35;
    options.loop.checkpoint_directory = directory.path();
    const std::uint32_t batches[2][3] = {{20, 5, 30}, {3, 18, 11}};
    for (std::uint64_t window = 1; window <= 3; ++window)
      options.arrivals[window] = {decide(window, rank, batches[rank][window - 1], (window + 1) * 5)};
  }
  const auto uninterrupted = train_ranks(whole, train, test);
  EXPECT_TRUE(same_bits(uninterrupted[0], uninterrupted[1]));

  // The newest three are left: two in mid-epoch and the end.
  int resumed_in_mid_epoch = 0;
  for (const auto& [step, path] : uninterrupted[0].checkpoints) {
    if (!std::filesystem::exists(path) || step == uninterrupted[0].steps)
      continue;
    checkpoint state;
    ASSERT_EQ(read_checkpoint(path, state), "");
    EXPECT_GT(state.sampler.cursor, 0U);
    ++resumed_in_mid_epoch;
    auto rest = whole;
    for (auto& options : rest) {
      options.resume_from = path;
      options.loop.checkpoint_directory = "";
    }
    const auto resumed = train_ranks(rest, train, test);
    EXPECT_EQ(resumed[0].steps, uninterrupted[0].steps);
    EXPECT_EQ(resumed[0].samples, uninterrupted[0].samples);
    EXPECT_TRUE(same_bits(resumed[0], uninterrupted[0]));
    EXPECT_TRUE(same_bits(resumed[1], uninterrupted[0]));
  }
  EXPECT_EQ(resumed_in_mid_epoch, 2);
}

INSTANTIATE_TEST_SUITE_P(
    Optimizers, Resume,
    testing::Values(optimizer_case{cluster::optimizer_kind::sgd, cluster::learning_rate_rule::adascale},
                    optimizer_case{cluster::optimizer_kind::adam, cluster::learning_rate_rule::adascale},
                    optimizer_case{cluster::optimizer_kind::adamw, cluster::learning_rate_rule::linear}));

TEST(TrainingLoop, ResumesBeforeADecisionThatChangesTheBatchesWithTheSameBits) {
  const auto train = tiny_dataset(600, 3);
  const auto test = tiny_dataset(60, 4);
  const temporary_directory directory;
  std::vector<rank_options> whole(2);
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    whole[rank].loop.training.checkpoint_every_epochs = 0.75;
    whole[rank].loop.checkpoint_directory = directory.path();
    whole[rank].arrivals[0] = {decide(1, rank, 12 - 3 * rank, 5)};
    whole[rank].arrivals[4] = {decide(4, rank, 3 + 4 * rank, 25)};
    whole[rank].arrivals[5] = {decide(5, rank, 5 + rank, 30)};
  }
  const auto uninterrupted = train_ranks(whole, train, test);
  const auto& [step, path] = *uninterrupted[0].checkpoints.begin();
  ASSERT_EQ(step, 23U); // 5 steps of 16 samples, then 18 of 21: in mid-window
  auto rest = whole;
  for (auto& options : rest) {
    options.resume_from = path;
    options.arrivals[0] = options.arrivals[4]; // what had arrived and not been applied is sent again
    options.arrivals.erase(4);
  }
  const auto resumed = train_ranks(rest, train, test);
  EXPECT_EQ(resumed[0].windows[0].first_step, 23U);
  EXPECT_EQ(resumed[0].windows[0].window, 5U);
  EXPECT_EQ(resumed[0].windows[0].batch, 12U);
  EXPECT_EQ(resumed[0].windows[1].batch, 3U);
  EXPECT_TRUE(same_bits(resumed[0], uninterrupted[0]));
  EXPECT_TRUE(same_bits(resumed[1], uninterrupted[0]));
}

TEST(TrainingLoop, ResumesAModelThatDrawsRandomNumbersWithTheSameBits) {
  const auto train = tiny_dataset(300, 3);
  const auto test = tiny_dataset(60, 4);
  const temporary_directory directory;
  rank_options whole;
  whole.dropout = 0.3;
  whole.loop.training.rule = cluster::learning_rate_rule::adascale;
  whole.loop.training.checkpoint_every_epochs = 0.45;
  whole.loop.checkpoint_directory = directory.path();
  const auto uninterrupted = train_ranks({whole}, train, test);
  auto rest = whole;
  rest.resume_from = uninterrupted[0].checkpoints.begin()->second;
  EXPECT_TRUE(same_bits(train_ranks({rest}, train, test)[0], uninterrupted[0]));
}

TEST(TrainingState, RefusesACheckpointOfAnotherRun) {
  const auto train = tiny_dataset(60, 3);
  const auto test = tiny_dataset(60, 4);
  steady_clock time;
  training_state now(for_workers(tiny_options(), 1), tiny_model(), train, test, time);
  const auto good = now.capture();
  auto state = good;
  state.seed = 2;
  EXPECT_NE(now.restore(state), "");
  state = good;
  state.epoch_samples = 61;
  EXPECT_NE(now.restore(state), "");
  state = good;
  state.model.pop_back();
  EXPECT_NE(now.restore(state), "");
  EXPECT_EQ(now.restore(good), "");
}

TEST(TrainingState, BringsTheBatchesOfACheckpointInsideBoundsThatWereNarrowedSince) {
  const auto train = tiny_dataset(60, 3);
  const auto test = tiny_dataset(60, 4);
  steady_clock time;
  auto options = tiny_options();
  options.batch.highest = 16;
  training_state now(for_workers(options, 1), tiny_model(), train, test, time);
  auto state = now.capture();
  state.batches = {64};
  EXPECT_EQ(now.restore(state), "");
  now.regroup({0});
  EXPECT_EQ(now.reached.batches, std::vector<std::uint32_t>{16});
}

TEST(TrainingState, TakesTheCheckpointOfAnotherNumberOfWorkersAndKeepsItsGlobalBatch) {
  const auto train = tiny_dataset(60, 3);
  const auto test = tiny_dataset(60, 4);
  steady_clock time;
  training_state now(for_workers(tiny_options(), 2), tiny_model(), train, test, time);
  auto state = now.capture();
  state.members = {0, 1, 2};
  state.batches = {10, 20, 31};
  state.decision = {1, 7};
  EXPECT_EQ(now.restore(state), "");
  now.regroup({0, 1});
  EXPECT_EQ(now.reached.batches, (std::vector<std::uint32_t>{20, 41}));
  EXPECT_EQ(now.reached.in_force, messages::decision_key{}) << "no decision is behind these batch sizes";
  now.reached.in_force = {1, 8};
  now.regroup({0, 1});
  EXPECT_EQ(now.reached.in_force.window, 8U) << "nothing has changed";
}

TEST(TrainingLoop, UsesEverySampleOfAnEpochAlsoWhenTheLastStepHasTooFewForAll) {
  const auto train = tiny_dataset(65, 5); // 4 steps of 16, then 1 sample for two workers
  const auto test = tiny_dataset(30, 6);
  std::vector<rank_options> options(2);
  for (auto& each : options)
    each.loop.training.epochs = 2;
  const auto results = train_ranks(options, train, test);
  EXPECT_EQ(results[0].steps, 10U);
  EXPECT_EQ(results[0].samples, 130U);
  EXPECT_EQ(results[0].epochs, 2U);
  EXPECT_TRUE(same_bits(results[0], results[1]));
  std::uint64_t samples = 0;
  for (const auto& result : results)
    for (const auto& window : result.windows)
      samples += window.statistics.samples;
  EXPECT_EQ(samples, 130U);
  EXPECT_TRUE(results[0].windows.back().final);
  EXPECT_TRUE(torch::isfinite(results[0].parameters[0]).all().item<bool>());
}

TEST(TrainingLoop, StopsAllWorkersAfterTheSameStepWhenOneIsAskedTo) {
  const auto train = tiny_dataset(1000, 5);
  const auto test = tiny_dataset(30, 6);
  std::vector<rank_options> options(2);
  options[1].stop_after_windows = 2;
  const auto results = train_ranks(options, train, test);
  for (const auto& result : results) {
    EXPECT_EQ(result.end.how, ending::stopped);
    EXPECT_EQ(result.end.reason, "stopped");
    EXPECT_EQ(result.steps, 11U); // asked behind step 10, told to all in the next one
    ASSERT_EQ(result.windows.size(), 3U);
    EXPECT_TRUE(result.windows[2].final);
    EXPECT_FALSE(result.windows[1].final);
    EXPECT_GT(result.final_accuracy, 0);
  }
  EXPECT_TRUE(same_bits(results[0], results[1]));
}

TEST(TrainingLoop, StopsAllWorkersWhenTheTargetAccuracyIsReached) {
  const auto train = tiny_dataset(1000, 5);
  const auto test = tiny_dataset(90, 6);
  std::vector<rank_options> options(2);
  for (auto& each : options) {
    each.loop.training.epochs = 50;
    each.loop.training.evaluate_every_epochs = 0.25;
    each.loop.training.target_accuracy = 0.7;
  }
  const auto results = train_ranks(options, train, test);
  for (const auto& result : results) {
    EXPECT_EQ(result.end.reason, "target accuracy reached");
    EXPECT_GE(result.final_accuracy, 0.7);
    EXPECT_GE(result.seconds_to_target, 0);
    EXPECT_EQ(result.steps, results[0].steps);
    EXPECT_LT(result.samples, 50'000U);
  }
  const auto& evaluations = results[0].evaluations;
  ASSERT_GE(evaluations.size(), 1U);
  EXPECT_TRUE(results[1].evaluations.empty());
  for (std::size_t i = 0; i < evaluations.size(); ++i) {
    EXPECT_EQ(evaluations[i].samples / 250, i + 1) << "evaluated at other places than each quarter of an epoch";
    EXPECT_EQ(evaluations[i].test_accuracy >= 0.7, i + 1 == evaluations.size());
  }
}

TEST(TrainingLoop, KnowsTheNoiseAlsoWithoutPeersAndTrainsTheSame) {
  const auto train = tiny_dataset(2000, 5);
  const auto test = tiny_dataset(30, 6);
  rank_options options;
  options.loop.batch.initial = 16;
  const auto alone = train_ranks({options}, train, test);
  EXPECT_TRUE(alone[0].windows.back().statistics.gradient_valid);
  EXPECT_GT(alone[0].windows.back().statistics.noise_scale, 0);
  options.loop.batch.initial = 8;
  const auto pair = train_ranks({options, options}, train, test);
  EXPECT_LT(largest_difference(alone[0], pair[0]), 1e-4);
}

TEST(TrainingLoop, ClipsTheReducedGradient) {
  const auto train = tiny_dataset(64, 5);
  const auto test = tiny_dataset(30, 6);
  rank_options options;
  options.loop.training.momentum = 0;
  options.loop.training.learning_rate = 1;
  options.loop.training.clip_norm = 0.001;
  options.loop.batch.initial = 32;
  const auto results = train_ranks({options, options}, train, test); // one step
  EXPECT_EQ(results[0].steps, 1U);
  double moved = 0;
  const auto before = tiny_model()->parameters();
  for (std::size_t i = 0; i < before.size(); ++i)
    moved += (results[0].parameters[i] - before[i]).square().sum().item<double>();
  EXPECT_NEAR(std::sqrt(moved), 0.001, 1e-6);
  EXPECT_GT(results[0].windows[0].statistics.gradient_norm, 0.001);
}

TEST(TrainingLoop, TellsOfEachCheckpointThatFailsAtOnce) {
  const temporary_directory directory;
  const auto train = tiny_dataset(60, 1);
  const auto test = tiny_dataset(20, 2);
  rank_options options;
  options.loop.training.checkpoint_every_epochs = 0.35;
  options.loop.checkpoint_directory = directory.write("file", "in its place");
  const auto result = train_ranks({options}, train, test)[0];
  EXPECT_TRUE(result.checkpoints.empty());
  EXPECT_GE(result.failed_checkpoints.size(), 2U);
  EXPECT_LT(result.failed_checkpoints.begin()->first, result.steps) << "before the end";
  EXPECT_THAT(result.failed_checkpoints.begin()->second, ::testing::HasSubstr("cannot write"));
}

/// Notes the batch size and the computing time of each of its steps.
class step_recorder final : public observer {
public:
  void started() override {}
  void window_closed(const window_record& record) override { windows.push_back(record); }
  void step_completed(std::uint64_t) override {}
  void step_timed(const step_times& times) override {
    batches.push_back(times.batch);
    compute_seconds.push_back(times.compute_seconds);
  }
  void evaluated(const messages::evaluation_report&) override {}
  void checkpoint_written(const std::string&, std::uint64_t) override {}
  void checkpoint_failed(const std::string&, std::uint64_t) override {}
  step_request request() override { return step_request::none; }

  std::vector<window_record> windows;
  std::vector<std::uint32_t> batches; ///< as of the step's end, before work is moved for the next one
  std::vector<double> compute_seconds;
};

/// Steps whose computing takes so many milliseconds for each sample, as a device's would, and `factor` times that on
/// rank 1 from one step on.
class slow_layer : public torch::nn::Module {
public:
  torch::Tensor forward(const torch::Tensor& images) {
    if (is_training()) {
      const double factor = slow && state->reached.step >= slow_from_step ? 6 : 1;
      std::this_thread::sleep_for(std::chrono::duration<double>(factor * 0.001 * static_cast<double>(images.size(0))));
    }
    return images;
  }
  static constexpr std::uint64_t slow_from_step = 23;
  bool slow = false;
  const training_state* state = nullptr;
};

struct recorded {
  std::vector<step_recorder> seen; ///< by rank, as all
  std::vector<std::uint64_t> checksums;
  std::vector<std::uint64_t> samples;
};

/// Workers that take a millisecond for each sample; `slowed`: the rank that takes longer from one step on.
recorded record_ranks(const loop_options& options, std::uint32_t workers, const dataset& train,
                      std::optional<std::uint32_t> slowed) {
  const auto test = tiny_dataset(16, 8);
  recorded result{.seen = std::vector<step_recorder>(workers),
                  .checksums = std::vector<std::uint64_t>(workers),
                  .samples = std::vector<std::uint64_t>(workers)};
  exchange::run_ranks(workers, [&](std::uint32_t rank, exchange::group& peers) {
    steady_clock time;
    const exchange::interruption never;
    const membership place{{.rank = rank, .members = exchange::all_ranks(workers)}};
    decision_slot slot(rank, 1, 1024);
    slot.enter_generation(1);
    torch::nn::Sequential model;
    const auto layer = std::make_shared<slow_layer>();
    model->push_back(layer);
    const auto layers = tiny_model();
    for (const auto& each : *layers)
      model->push_back(each);
    training_state state(for_workers(options, workers), model, train, test, time);
    layer->state = &state;
    layer->slow = rank == slowed;
    state.regroup(place.members);
    EXPECT_EQ(training_loop(state, place, peers, slot, result.seen[rank], never).run().how, ending::completed);
    result.checksums[rank] = model_checksum(*model);
    result.samples[rank] = state.reached.samples;
  });
  return result;
}

TEST(Balance, TakesWorkFromAWorkerWithinThreeStepsOfItsSlowingDown) {
  constexpr std::uint32_t workers = 4;
  auto options = tiny_options();
  options.balances = messages::balancing::shares;
  options.batch = {.initial = 16, .lowest = 1, .highest = 1024};
  const auto train = tiny_dataset(40 * 4 * 16, 7);
  const auto [seen, checksums, samples] = record_ranks(options, workers, train, 1);
  const auto& slowed = seen[1];
  constexpr auto begin = slow_layer::slow_from_step;
  ASSERT_GE(slowed.batches.size(), begin + 4U);
  const auto before = *std::ranges::max_element(slowed.batches.begin(), slowed.batches.begin() + begin);
  EXPECT_LT(slowed.batches[begin + 3], 0.7 * before) << "three steps after the one in which it slowed down";
  double moves = 0;
  std::uint32_t changes = 0;
  for (const auto& window : slowed.windows) {
    moves += window.balance.moves;
    changes += window.balance.changes;
  }
  EXPECT_GT(moves, 0) << "told in its windows";
  EXPECT_GE(changes, 1U);
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    EXPECT_EQ(checksums[rank], checksums[0]);
    EXPECT_EQ(samples[rank], train.size()) << "each sample once";
  }
}

/// In its last step an epoch has fewer samples left than the batch sizes say: once that counted as a batch size.
TEST(Balance, LeavesBatchSizesAsTheyAreBehindAnEpochsLastShortStep) {
  constexpr std::uint32_t workers = 2;
  constexpr std::uint64_t epoch = 8 * 2 * 16 + 5;
  auto options = tiny_options();
  options.balances = messages::balancing::shares;
  options.training.epochs = 4;
  options.batch = {.initial = 16, .lowest = 1, .highest = 1024};
  const auto [seen, checksums, samples] = record_ranks(options, workers, tiny_dataset(epoch, 7), {});
  EXPECT_EQ(samples[0], 4 * epoch);
  EXPECT_EQ(checksums[0], checksums[1]);
  std::size_t short_steps = 0;
  std::uint64_t left = epoch;
  for (std::size_t step = 0; step + 1 < seen[0].batches.size(); ++step) {
    const auto total = seen[0].batches[step] + seen[1].batches[step];
    if (total < left) {
      left -= total;
      continue;
    }
    if (total > left) { // 5 samples, and a little may have moved by the step before, where the machine is busy
      EXPECT_EQ(seen[0].batches[step + 1] + seen[1].batches[step + 1], total) << "step " << step;
      for (std::uint32_t rank = 0; rank < workers; ++rank)
        EXPECT_GT(2 * seen[rank].batches[step + 1], seen[rank].batches[step]) << "rank " << rank << ", step " << step;
      ++short_steps;
    }
    left = epoch;
  }
  EXPECT_GE(short_steps, 1U);
}

} // namespace
} // namespace dynamix::trainer
