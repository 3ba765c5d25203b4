#include "node/experiments/run_outcome.hpp"
#include "node/reports/run_records.hpp"
#include "tests/unit/node/sample_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace dynamix::node {
namespace {

using namespace testing;
using ::testing::ElementsAre;

TEST(RunOutcome, SumsUpALiveRun) {
  auto records = sample_records();
  records.evaluations = {{.elapsed_seconds = 3, .test_accuracy = 0.5}, {.elapsed_seconds = 6, .test_accuracy = 0.88}};
  std::get<ledger::window>(records.rows[3].entry).workers[1].intervention = "too slow";
  const auto outcome = outcome_of(records, summarise(records));
  EXPECT_EQ(outcome.policy, "ppo");
  EXPECT_EQ(outcome.seed, 3U);
  EXPECT_EQ(outcome.failure, "");
  EXPECT_FALSE(outcome.reached()) << "the file has no target";
  EXPECT_EQ(outcome.final_accuracy, 0.88);
  EXPECT_EQ(outcome.samples_per_second(), 640) << "3840 samples in 6 s";
  EXPECT_EQ(outcome.windows, 2U) << "nothing is decided on the last";
  EXPECT_EQ(outcome.decisions, 4U) << "nothing is decided on the last window";
  EXPECT_EQ(outcome.changes, 4U);
  EXPECT_EQ(outcome.interventions, 1U);
  EXPECT_DOUBLE_EQ(outcome.compute_seconds, 0.15) << "0.1 at ada, 0.2 at ben";
  EXPECT_THAT(outcome.series.accuracy_seconds, ElementsAre(3, 6));
  EXPECT_THAT(outcome.series.batch_names, ElementsAre("ada", "ben"));
  EXPECT_THAT(outcome.series.batch_seconds, ElementsAre(2, 4, 6));
  EXPECT_THAT(outcome.series.batches, ElementsAre(ElementsAre(64, 64, 89), ElementsAre(64, 64, 39)));
}

TEST(RunOutcome, ARunWithoutFarewellsHasFailed) {
  auto records = sample_records();
  records.farewells.clear();
  EXPECT_EQ(outcome_of(records, summarise(records)).failure, ledger::no_farewell);
}

TEST(RunOutcome, RanksMayChangeHands) {
  auto records = sample_records();
  auto& last = std::get<ledger::window>(records.rows.back().entry);
  last.workers.erase(last.workers.begin()); // ada is lost, and ben takes her rank
  last.workers.front().report.rank = 0;
  const run_records read = records;
  EXPECT_EQ(read.run.find_worker("ada")->course.reports(), 2U);
  EXPECT_EQ(read.run.find_worker("ben")->course.reports(), 3U);
  const auto series = outcome_of(records, summarise(records)).series;
  EXPECT_TRUE(std::isnan(series.batches[0][2]));
  EXPECT_EQ(series.batches[1][2], 39);
}

TEST(RunOutcome, IsWrittenAndReadBack) {
  run_outcome outcome{.fingerprint = 0xfedcba9876543210,
                      .policy = "static-best",
                      .static_batch = 128,
                      .seed = 7,
                      .failure = "a \"quoted\" reason",
                      .seconds = 12.5,
                      .seconds_to_target = 3.25,
                      .final_accuracy = 0.5,
                      .samples = 100,
                      .windows = 2,
                      .decisions = 3,
                      .changes = 1,
                      .interventions = 1,
                      .reward = -0.5,
                      .episode_rewards = {-1, -0.5},
                      .compute_seconds = 0.25,
                      .exchange_seconds = 0.5,
                      .data_seconds = 0.125};
  outcome.series = {.accuracy_seconds = {1},
                    .accuracy = {0.5},
                    .batch_seconds = {1, 2},
                    .batch_names = {"ada"},
                    .batches = {{64, std::nan("")}}};
  const auto read = parse_outcome(to_json(outcome));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->fingerprint, outcome.fingerprint);
  EXPECT_EQ(to_json(*read), to_json(outcome)) << "every field comes back";
  EXPECT_TRUE(std::isnan(read->series.batches[0][1]));
}

TEST(RunOutcome, RefusesWhatIsTornOrNotItsOwn) {
  const auto text = to_json(run_outcome{.policy = "ppo"});
  EXPECT_FALSE(parse_outcome(text.substr(0, text.size() / 2)));
  EXPECT_FALSE(parse_outcome("{}"));
  EXPECT_FALSE(parse_outcome("[]"));
  EXPECT_FALSE(parse_outcome(R"({"fingerprint": "zz"})"));
}

TEST(ThinnedRows, KeepsEvenlySpreadRowsAndTheLast) {
  thinned_rows series(4);
  std::vector<double> kept;
  for (int i = 0; i < 11; ++i)
    series.add({static_cast<double>(i)});
  for (const auto& row : series.rows())
    kept.push_back(row[0]);
  EXPECT_THAT(kept, ElementsAre(0, 4, 8, 10));
  series.add({11});
  series.add({12});
  EXPECT_EQ(series.rows().size(), 4U) << "12 is the fourth and last: 0, 4, 8, 12";
  EXPECT_THAT(thinned_rows(4).rows(), ::testing::IsEmpty());
}

TEST(RunRecorder, DrawsTheSpreadOfManyWorkers) {
  cluster::cluster_file file;
  ledger::window window{.key = {1, 1}};
  for (std::uint32_t rank = 0; rank < 10; ++rank) {
    file.hosts.push_back({.name = "host-" + std::to_string(rank)});
    auto of = report(rank, 1, 10 * (rank + 1));
    of.host = file.hosts.back().name;
    window.workers.push_back(worker(of, {}, 64));
  }
  run_recorder recorder(file);
  recorder.add(window);
  window.workers.pop_back();
  recorder.add(window);
  const auto series = recorder.outcome().series;
  EXPECT_THAT(series.batch_names, ElementsAre("highest", "median", "lowest"));
  EXPECT_THAT(series.batches, ElementsAre(ElementsAre(100, 90), ElementsAre(50, 50), ElementsAre(10, 10)));
}

/// Ranks 0 to 2 are the file's hosts and a place; each of `hosts` has reported in a window of its own.
run_series series_of_an_open_cluster(const std::vector<std::string>& hosts, std::uint32_t rank = 2) {
  auto file = pair_file();
  file.membership = cluster::membership_kind::open;
  file.workers_max = 16;
  run_recorder recorder(file);
  for (std::uint64_t number = 1; const auto& host : hosts) {
    ledger::window window{.key = {1, number}};
    window.workers = {worker(report(0, number, 64), {}, 64)};
    auto of = report(rank, number, static_cast<std::uint32_t>(100 * number));
    of.host = host;
    window.workers.push_back(worker(of, {}, 64));
    recorder.add(window);
    ++number;
  }
  return recorder.outcome().series;
}

TEST(RunRecorder, DrawsHostsThatTheFileDoesNotName) {
  const auto series = series_of_an_open_cluster({"guest", "guest"});
  EXPECT_THAT(series.batch_names, ElementsAre("ada", "ben", "guest"));
  EXPECT_THAT(series.batches[2], ElementsAre(100, 200));
  const auto shared = series_of_an_open_cluster({"guest", "other"});
  EXPECT_THAT(shared.batch_names, ElementsAre("ada", "ben", "rank 2, last other"));
  EXPECT_THAT(series_of_an_open_cluster({"guest"}, 16).batch_names, ElementsAre("ada", "ben")) << "no such place";
  EXPECT_THAT(series_of_an_open_cluster({"guest"}, 12).batch_names, ElementsAre("highest", "median", "lowest"))
      << "three workers only, one of them behind those that are drawn";
}

TEST(RunRecorder, DrawsTheSpreadOnceAnOpenClusterIsLarge) {
  auto file = pair_file();
  file.membership = cluster::membership_kind::open;
  file.workers_max = 9;
  run_recorder recorder(file);
  ledger::window window{.key = {1, 1}};
  for (std::uint32_t rank = 0; rank < 9; ++rank) {
    auto of = report(rank, 1, 10 * (rank + 1));
    if (rank > 1)
      of.host = "guest-" + std::to_string(rank);
    window.workers.push_back(worker(of, {}, 64));
  }
  recorder.add(window);
  EXPECT_THAT(recorder.outcome().series.batches, ElementsAre(ElementsAre(90), ElementsAre(50), ElementsAre(10)));
  const auto workers = recorder.workers();
  ASSERT_EQ(workers.size(), 9U);
  EXPECT_EQ(workers[8].host, "guest-8");
  EXPECT_EQ(workers[8].samples, 900U);
}

TEST(RunRecorder, MarksWhereAWorkerWasNotThere) {
  run_recorder recorder(pair_file());
  ledger::window window{.key = {1, 1}};
  window.workers = {worker(report(1, 1, 64), {}, 64)};
  recorder.add(window);
  EXPECT_TRUE(std::isnan(recorder.outcome().series.batches[0][0]));
  EXPECT_EQ(recorder.outcome().series.batches[1][0], 64);
  const auto workers = recorder.workers();
  EXPECT_EQ(workers[0].samples, 0U);
  EXPECT_EQ(workers[1].samples, 640U);
  EXPECT_EQ(workers[1].share, 1);
  EXPECT_EQ(workers[1].mean_batch, 64);
}

TEST(RunRecorder, AveragesTimesOverTheStepsWhoseTimesAreKnown) {
  run_recorder recorder(pair_file());
  ledger::window window{.key = {1, 1}};
  window.workers = {worker(report(0, 1, 64), {}, 64), worker(report(1, 1, 64), {}, 64)};
  recorder.add(window);
  window.key.window = 2;
  for (auto& one : window.workers) {
    auto& training = one.report.training;
    training.untimed_steps = training.steps;
    training.iteration_seconds = training.compute_seconds = 0;
  }
  recorder.add(window);
  const auto workers = recorder.workers();
  EXPECT_EQ(workers[1].steps, 20);
  EXPECT_EQ(workers[1].timed_steps, 10);
  EXPECT_DOUBLE_EQ(workers[1].step_seconds, 0.2);
  EXPECT_DOUBLE_EQ(workers[1].compute_seconds, 0.2);
  EXPECT_EQ(workers[1].mean_batch, 64);
  EXPECT_EQ(workers[1].compute_slowdown, 2) << "as the cluster file has it";
  EXPECT_DOUBLE_EQ(recorder.outcome().compute_seconds, 0.15) << "0.1 at ada, 0.2 at ben";
}

TEST(WindowSeries, SplitsAStepByItsCausesWhereTheyAreKnown) {
  ledger::window window{.key = {1, 1}};
  window.workers = {worker(report(0, 1, 64), {}, 64)};
  window_columns columns;
  window_series series;
  series.rows = {columns.add(window)};
  EXPECT_FALSE(series.has(column::barrier));
  EXPECT_DOUBLE_EQ(series.of(column::compute, 1e3).front(), 100);
  window.workers[0].time = {
      .compute_seconds = 0.08, .cpu_wait_seconds = 0.02, .network_seconds = 0.03, .barrier_seconds = 0.04};
  series.rows = {columns.add(window)};
  EXPECT_DOUBLE_EQ(series.of(column::compute).front(), 0.08);
  EXPECT_DOUBLE_EQ(series.of(column::barrier).front(), 0.04);
  EXPECT_DOUBLE_EQ(series.of(column::samples).front(), 1280) << "counts on";
}

} // namespace
} // namespace dynamix::node
