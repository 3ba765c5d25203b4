#include "generations.hpp"
#include "tests/temporary_directory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace dynamix::trainer {
namespace {

using testing::ElementsAre;

std::uint64_t global_batch_of(const training_state& state) {
  const auto& batches = state.reached.batches;
  return std::accumulate(batches.begin(), batches.end(), std::uint64_t{0});
}

loop_options three_epochs() {
  auto options = tiny_options();
  options.training.epochs = 3;
  options.batch.lowest = 1;
  return options;
}

void expect_each_sample_once_an_epoch(const std::vector<std::vector<std::uint32_t>>& steps, std::uint64_t samples,
                                      std::uint64_t epochs) {
  std::vector<std::uint32_t> epoch;
  std::uint64_t whole = 0;
  for (const auto& step : steps) {
    epoch.insert(epoch.end(), step.begin(), step.end());
    ASSERT_LE(epoch.size(), samples) << "an epoch does not end with a step";
    if (epoch.size() < samples)
      continue;
    ++whole;
    ASSERT_EQ(std::set(epoch.begin(), epoch.end()).size(), samples) << "a sample was used twice in epoch " << whole;
    epoch.clear();
  }
  EXPECT_TRUE(epoch.empty());
  EXPECT_EQ(whole, epochs);
}

/// Plain SGD with momentum over whole batches, one after the other.
std::vector<torch::Tensor> reference_parameters(const std::vector<std::vector<std::uint32_t>>& steps,
                                                const loop_options& options, const dataset& train) {
  auto model = tiny_model();
  batch_loader loader(train, measure_channels(train));
  torch::optim::SGD sgd(model->parameters(),
                        torch::optim::SGDOptions(options.training.learning_rate).momentum(options.training.momentum));
  for (const auto& samples : steps) {
    const auto batch = loader.load(samples);
    sgd.zero_grad();
    torch::nn::functional::cross_entropy(model->forward(batch.inputs), batch.labels).backward();
    sgd.step();
  }
  return model->parameters();
}

double largest_difference(const std::vector<torch::Tensor>& left, const std::vector<torch::Tensor>& right) {
  double largest = 0;
  for (std::size_t i = 0; i < left.size(); ++i)
    largest = std::max(largest, (left[i] - right[i]).abs().max().item<double>());
  return largest;
}

std::vector<std::uint32_t> some_of(storage::splitmix64& random, std::uint32_t workers) {
  std::vector<std::uint32_t> members;
  for (std::uint32_t rank = 0; rank < workers; ++rank)
    if (random.below(4) != 0)
      members.push_back(rank);
  return members;
}

/// Generations of whoever is there, of which members die, are interrupted or leave to regroup, at random steps.
void train_through_losses(std::uint64_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  constexpr std::uint32_t workers = 4;
  constexpr std::uint64_t samples = 331;
  storage::splitmix64 random(seed);
  generations run(three_epochs(), workers, samples);
  std::vector<std::uint32_t> members = exchange::all_ranks(workers);
  std::vector<std::uint32_t> finished;
  for (int generation = 0; finished.empty() && generation < 200; ++generation) {
    // Who has the newest state stays, as the source.
    auto wanted = some_of(random, workers);
    std::uint32_t newest = members.front();
    for (std::uint32_t rank = 0; rank < workers; ++rank)
      if (run.alive(rank) &&
          (!run.alive(newest) || run.worker(rank).state.reached.step > run.worker(newest).state.reached.step))
        newest = rank;
    if (std::ranges::find(wanted, newest) == wanted.end())
      wanted.push_back(newest);
    std::ranges::sort(wanted);
    members = wanted;
    generations::observers watchers;
    const auto from = run.alive(newest) ? run.worker(newest).state.reached.step : 0;
    const auto victim = members[random.below(static_cast<std::uint32_t>(members.size()))];
    const auto at_step = from + 1 + random.below(6);
    const auto kind = random.below(3);
    if (kind == 0 && members.size() > 1)
      watchers[victim].dies_after_step = at_step;
    else if (kind == 1)
      watchers[victim].interrupted_after_step = at_step;
    else
      watchers[victim].regroups_after_step = at_step;
    const auto ends = run.run(members, watchers);
    for (const auto& [rank, end] : ends) {
      EXPECT_NE(end.how, ending::failed) << end.reason;
      EXPECT_EQ(global_batch_of(run.worker(rank).state), workers * 8U);
      if (end.how == ending::completed)
        finished.push_back(rank);
    }
    ASSERT_FALSE(ends.empty());
  }
  ASSERT_FALSE(finished.empty());
  const auto rank = finished.front();
  auto& state = run.worker(rank).state;
  EXPECT_EQ(state.reached.samples, 3 * samples);
  const auto steps = run.samples_by_step(rank);
  expect_each_sample_once_an_epoch(steps, samples, 3);
  EXPECT_LT(largest_difference(state.model->parameters(), reference_parameters(steps, state.options, run.train)), 1e-4);
}

TEST(Generations, UseEverySampleOnceAnEpochAndTrainWhatOneProcessWouldWhateverIsLost) {
  for (std::uint64_t seed = 1; seed <= 12 && !testing::Test::HasFailure(); ++seed)
    train_through_losses(seed);
}

TEST(Generations, GoOnWithTheSameBitsOnAllMembersAfterALoss) {
  generations run(three_epochs(), 3, 600);
  generations::observers watchers;
  watchers[1].dies_after_step = 7;
  const auto first = run.run({0, 1, 2}, watchers);
  EXPECT_EQ(first.at(0).how, ending::lost);
  EXPECT_EQ(first.at(2).how, ending::lost);
  EXPECT_EQ(run.worker(0).state.reached.batches, (std::vector<std::uint32_t>{8, 8, 8}));
  const auto second = run.run({0, 2});
  EXPECT_EQ(second.at(0).how, ending::completed);
  EXPECT_EQ(second.at(2).how, ending::completed);
  EXPECT_EQ(run.worker(0).state.reached.batches, (std::vector<std::uint32_t>{12, 12}));
  EXPECT_EQ(run.worker(0).state.reached.samples, 1800U);
  EXPECT_EQ(run.worker(0).state.reached.step, 75U) << "the global batch has changed";
  EXPECT_EQ(model_checksum(*run.worker(0).state.model), model_checksum(*run.worker(2).state.model));
}

TEST(Generations, StartFromTheMemberWithTheMostSteps) {
  generations run(three_epochs(), 3, 600);
  generations::observers watchers;
  watchers[2].interrupted_after_step = 9;
  watchers[0].regroups_after_step = 5;
  watchers[1].regroups_after_step = 5;
  run.run({0, 1}, watchers); // leaves together, behind
  const auto behind = run.worker(0).state.reached.step;
  generations::observers longer;
  longer[2].interrupted_after_step = behind + 4;
  run.run({1, 2}, longer);
  EXPECT_EQ(run.worker(0).state.reached.step, behind);
  const auto ahead = std::max(run.worker(1).state.reached.step, run.worker(2).state.reached.step);
  EXPECT_GT(ahead, behind);
  generations::observers last;
  for (const std::uint32_t rank : {0U, 1U, 2U})
    last[rank].regroups_after_step = 0;
  run.run({0, 1, 2}, last);
  EXPECT_NE(run.sources.back(), 0U);
  for (const std::uint32_t rank : {0U, 1U, 2U}) {
    EXPECT_GT(run.worker(rank).state.reached.step, ahead);
    EXPECT_EQ(model_checksum(*run.worker(rank).state.model), model_checksum(*run.worker(0).state.model));
  }
}

TEST(Generations, RegroupWithANewcomerWithoutLosingAStep) {
  generations run(three_epochs(), 3, 600);
  generations::observers watchers;
  watchers[1].regroups_after_step = 8;
  const auto first = run.run({0, 1}, watchers);
  EXPECT_EQ(first.at(0).how, ending::regrouped);
  EXPECT_EQ(first.at(1).how, ending::regrouped);
  EXPECT_EQ(run.worker(0).state.reached.step, 9U) << "asked for after step 8, told to all in the next one";
  EXPECT_EQ(run.worker(1).state.reached.step, 9U);
  EXPECT_FALSE(run.worker(0).state.step_in_flight);
  EXPECT_EQ(run.worker(0).state.reached.batches, (std::vector<std::uint32_t>{12, 12}));
  const auto before = model_checksum(*run.worker(0).state.model);
  EXPECT_EQ(model_checksum(*run.worker(1).state.model), before);

  const auto second = run.run({0, 1, 2});
  for (const std::uint32_t rank : {0U, 1U, 2U}) {
    EXPECT_EQ(second.at(rank).how, ending::completed);
    EXPECT_EQ(run.worker(rank).state.reached.batches, (std::vector<std::uint32_t>{8, 8, 8}));
    EXPECT_EQ(run.worker(rank).state.reached.step, 75U);
    EXPECT_EQ(model_checksum(*run.worker(rank).state.model), model_checksum(*run.worker(0).state.model));
  }
}

TEST(Generations, OfOneMemberTrainAloneAndGrowAgain) {
  generations run(three_epochs(), 3, 600);
  generations::observers watchers;
  watchers[2].regroups_after_step = 3;
  EXPECT_EQ(run.run({2}, watchers).at(2).how, ending::regrouped);
  EXPECT_EQ(run.worker(2).state.reached.step, 4U);
  EXPECT_EQ(run.worker(2).state.reached.batches, (std::vector<std::uint32_t>{24}));
  const auto all = run.run({0, 1, 2});
  EXPECT_EQ(all.at(0).how, ending::completed);
  const auto steps = run.samples_by_step(0);
  EXPECT_EQ(steps.size(), 75U);
  expect_each_sample_once_an_epoch(steps, 600, 3);
  EXPECT_LT(largest_difference(run.worker(1).state.model->parameters(),
                               reference_parameters(steps, three_epochs(), run.train)),
            1e-4);
}

TEST(Generations, ReportWholeWindowsOnlyAndBeginTheNextOneAfresh) {
  generations run(three_epochs(), 2, 600);
  generations::observers first;
  first[1].dies_after_step = 13;
  run.run({0, 1}, first);
  ASSERT_EQ(first[0].windows.size(), 2U);
  EXPECT_EQ(first[0].windows[1].first_step, 5U);
  const auto resumed_at = run.worker(0).state.reached.step;
  EXPECT_GE(resumed_at, 12U);
  generations::observers second;
  run.run({0}, second);
  const auto& windows = second[0].windows;
  EXPECT_EQ(windows[0].window, resumed_at / 5 + 1);
  EXPECT_EQ(windows[0].first_step, resumed_at);
  EXPECT_EQ(windows[0].statistics.steps, 5 - resumed_at % 5);
  EXPECT_EQ(windows[0].statistics.samples, 16 * (5 - resumed_at % 5));
  EXPECT_EQ(windows[1].statistics.steps, 5U);
}

TEST(Generations, ResumeAtTheBatchSizesOfTheCheckpointWhereTrainingBeginsSmall) {
  auto options = three_epochs();
  options.first_batch = options.batch.initial / 4;
  generations run(options, 2, 600);
  generations::observers first;
  first[0].interrupted_after_step = 13;
  run.run({0, 1}, first);
  EXPECT_THAT(run.worker(0).state.reached.batches, ElementsAre(options.first_batch, options.first_batch));
  for (const std::uint32_t rank : {0, 1}) {
    auto saved = run.worker(rank).state.capture();
    saved.batches = {5, 17};
    ASSERT_EQ(run.worker(rank).state.restore(saved), "");
  }
  run.run({0, 1});
  EXPECT_THAT(run.worker(0).state.reached.batches, ElementsAre(5, 17));
}

TEST(Generations, MakeUpForAnEvaluationThatWasCutOff) {
  auto options = three_epochs();
  options.training.evaluate_every_epochs = 0.5; // every 10 steps of 16 samples
  generations run(options, 2, 320);
  generations::observers first;
  first[0].interrupted_after_step = 10;
  run.run({0, 1}, first);
  EXPECT_EQ(run.worker(0).state.reached.step, 10U);
  EXPECT_TRUE(first[0].evaluations.empty());
  generations::observers second;
  run.run({0, 1}, second);
  ASSERT_EQ(second[0].evaluations.size(), 6U);
  EXPECT_EQ(second[0].evaluations[0].step, 10U);
  EXPECT_EQ(second[0].evaluations[1].step, 20U);
  EXPECT_GT(second[0].evaluations[0].learning_rate, 0);
  EXPECT_TRUE(second[1].evaluations.empty()) << "only the first member reports";
}

TEST(Generations, MakeUpForTheCheckpointOfAMemberThatDiedBeforeItWasWritten) {
  const temporary_directory directory;
  auto options = three_epochs();
  options.training.evaluate_every_epochs = 0.5;
  options.training.checkpoint_every_epochs = 0.5;
  options.checkpoint_directory = directory.path();
  generations run(options, 3, 480); // 240 samples are 10 steps
  generations::observers first;
  first[0].dies_when_evaluated = true;
  run.run({0, 1, 2}, first);
  EXPECT_EQ(run.worker(1).state.reached.step, 10U);
  generations::observers second;
  run.run({1, 2}, second);
  EXPECT_THAT(second[1].checkpoints, ElementsAre(10, 20, 30, 40, 50, 60));
  EXPECT_TRUE(second[2].checkpoints.empty()) << "only the first member writes";
  for (const auto& report : second[1].evaluations)
    EXPECT_EQ(report.step % 10, 0U);
}

TEST(Generations, TakeAFurtherStepAsTheSignThatTheCheckpointIsWritten) {
  const temporary_directory directory;
  auto options = three_epochs();
  options.training.checkpoint_every_epochs = 0.5;
  options.checkpoint_directory = directory.path();
  generations run(options, 3, 480);
  generations::observers first;
  first[0].dies_after_step = 13;
  run.run({0, 1, 2}, first);
  EXPECT_THAT(first[0].checkpoints, ElementsAre(10));
  generations::observers second;
  run.run({1, 2}, second);
  EXPECT_THAT(second[1].checkpoints, ElementsAre(20, 30, 40, 50, 60));
}

TEST(Generations, EndWhereTheTargetWasReachedBeforeALoss) {
  auto options = three_epochs();
  options.training.target_accuracy = 0.01;
  options.training.evaluate_every_epochs = 0.5;
  generations run(options, 2, 320);
  generations::observers first;
  first[0].dies_when_evaluated = true;
  run.run({0, 1}, first);
  const auto second = run.run({1});
  EXPECT_EQ(second.at(1).reason, "target accuracy reached");
  EXPECT_EQ(run.worker(1).state.reached.step, 10U);
}

TEST(Generations, HaveTheLearningRateOfTheWholeClusterWhoeverTrains) {
  auto options = three_epochs();
  options.training.rule = cluster::learning_rate_rule::linear;
  options.batch.highest = 10; // so that two of four workers cannot keep the global batch
  generations run(options, 4, 600);
  generations::observers watchers;
  run.run({1, 3}, watchers);
  EXPECT_EQ(global_batch_of(run.worker(1).state), 20U);
  EXPECT_DOUBLE_EQ(watchers[1].windows[0].statistics.learning_rate, options.training.learning_rate * 20 / 32);
}

/// A clock that stands still unless told.
class manual_clock final : public clock {
public:
  double now_seconds() const override { return now; }
  void sleep_seconds(double seconds) override { now += seconds; }
  double now = 100;
};

TEST(TrainingStep, SleepsNoLongerThanUntilItIsInterrupted) {
  class : public clock {
  public:
    double now_seconds() const override { return now; }
    void sleep_seconds(double seconds) override {
      now += seconds;
      if (now > 1)
        stop.raise("enough");
    }
    double now = 0;
    exchange::interruption stop;
  } time;
  sleep_unless_raised(time, time.stop, 0.75);
  EXPECT_DOUBLE_EQ(time.now, 0.75);
  EXPECT_THROW(sleep_unless_raised(time, time.stop, 100), exchange::error);
  EXPECT_LT(time.now, 2);
}

TEST(TrainingState, CountsTheTimeBetweenGenerationsAndNotTheTimeBeforeTheFirst) {
  const auto train = tiny_dataset(60, 3);
  const auto test = tiny_dataset(60, 4);
  manual_clock here;
  training_state survivor(for_workers(tiny_options(), 1), tiny_model(), train, test, here);
  here.now += 50;
  EXPECT_EQ(survivor.elapsed_seconds(), 0);
  EXPECT_EQ(survivor.restore(survivor.capture()), "");
  here.now += 7; // a generation
  here.now += 5; // nobody trains
  EXPECT_EQ(survivor.restore(survivor.capture()), "");
  here.now += 1;
  EXPECT_EQ(survivor.elapsed_seconds(), 13);
  manual_clock elsewhere;
  training_state newcomer(for_workers(tiny_options(), 1), tiny_model(), train, test, elsewhere);
  EXPECT_EQ(newcomer.restore(survivor.capture()), "");
  elsewhere.now += 2;
  EXPECT_EQ(newcomer.elapsed_seconds(), 15);
}

} // namespace
} // namespace dynamix::trainer
