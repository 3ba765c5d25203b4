/// The samples that a run has trained against those that its epochs dealt.

#include "node/reports/report.hpp"
#include "node/reports/run_records.hpp"
#include "tests/unit/node/sample_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace dynamix::node {
namespace {

using namespace ledger;
using namespace testing;
using ::testing::HasSubstr;

/// Ten windows of two steps of 50 samples, two epochs of 500: the fifth and the tenth end one.
written_run whole_records() {
  auto records = sample_records();
  records.rows.resize(2);
  for (std::uint64_t window = 1; window <= 10; ++window) {
    ledger::window row{.key = {1, window}, .generation = 1, .decided = true};
    for (const std::uint32_t rank : {0, 1}) {
      auto said = report(rank, window, 25);
      said.first_step = 2 * (window - 1);
      said.training.steps = 2;
      said.training.samples = 50;
      said.global_batch = 50;
      said.epoch = window / 5;
      said.epoch_samples = 100 * (window % 5);
      said.final = window == 10;
      row.workers.push_back(worker(said, {}, 25));
    }
    records.rows.push_back({0.1 * static_cast<double>(window), row});
  }
  for (auto& each : records.farewells)
    each.samples = 1000;
  return records;
}

TEST(SampleCount, HoldsTheSamplesThatWereTrainedAgainstThoseThatWereDealt) {
  EXPECT_FALSE(summarise(sample_records()).samples_dropped) << "nobody recorded the end";
  auto records = whole_records();
  EXPECT_EQ(summarise(records).samples_dropped, 0U);
  EXPECT_EQ(summarise(records).samples_repeated, 0U);
  for (auto& each : records.farewells)
    each.samples = 950;
  EXPECT_EQ(summarise(records).samples_dropped, 50U);
  EXPECT_THAT(result_block(summarise(records)), HasSubstr("50 dropped, 0 trained twice"));
  for (auto& each : records.farewells)
    each.samples = 1050;
  EXPECT_EQ(summarise(records).samples_repeated, 50U);
  EXPECT_EQ(nlohmann::json::parse(to_json(summarise(records)))["samples_dropped"], 0);
}

/// The ends of epochs in windows of a script's group of three, of which one agent was not in the generation yet.
TEST(SampleCount, TakesTheSizeOfNoEpochFromAWindowThatDoesNotTellOfAllWhoTrain) {
  auto records = whole_records();
  for (auto& row : records.rows)
    if (auto* window = std::get_if<ledger::window>(&row.entry))
      for (auto& worker : window->workers)
        worker.report.global_batch = 75;
  std::get<ledger::start>(records.rows.front().entry).dataset_samples = 0;
  EXPECT_FALSE(summarise(records).samples_dropped) << "nothing tells an epoch's size";
  std::get<ledger::start>(records.rows.front().entry).dataset_samples = 500;
  EXPECT_EQ(summarise(records).samples_repeated, 0U);
}

TEST(SampleCount, TakesTheLargestOfSizesThatAreAsFrequent) {
  auto records = whole_records();
  for (auto& row : records.rows)
    if (auto* window = std::get_if<ledger::window>(&row.entry); window != nullptr && window->key.window == 5)
      window->workers[0].report.training.samples = 20; // another has died behind its last report
  EXPECT_EQ(summarise(records).samples_dropped, 0U);
  EXPECT_EQ(summarise(records).samples_repeated, 0U);
}

TEST(SampleCount, KnowsNoEndOfARunThatWasResumedAndHasNotRecordedItsOwn) {
  auto records = whole_records();
  auto last = std::get<ledger::window>(records.rows.back().entry);
  ++last.key.window;
  for (auto& worker : last.workers) {
    ++worker.report.window;
    worker.report.final = false;
  }
  records.rows.push_back({2, last});
  EXPECT_FALSE(summarise(records).samples_dropped) << "the final report is of the life before";
}

TEST(SampleCount, TakesTheSizeOfAnEpochFromTheDataSetWhereNoEndOfOneIsRecorded) {
  auto records = whole_records();
  records.rows.erase(records.rows.begin() + 2, records.rows.begin() + 2 + 9); // all but the last window
  std::get<ledger::start>(records.rows.front().entry).dataset_samples = 500;
  EXPECT_EQ(summarise(records).samples_dropped, 0U);
  std::get<ledger::start>(records.rows.front().entry).dataset_samples = 600;
  EXPECT_EQ(summarise(records).samples_dropped, 200U);
}

} // namespace
} // namespace dynamix::node
