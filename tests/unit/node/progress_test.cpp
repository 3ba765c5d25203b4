#include "node/ledger_tail.hpp"
#include "node/progress.hpp"
#include "tests/unit/node/sample_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace dynamix::node {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::Pair;

progress after(const std::vector<actors::ledger_row>& rows) {
  progress now;
  for (const auto& row : rows)
    now.add(row);
  return now;
}

TEST(progress, tells_who_is_awaited_before_the_first_window) {
  auto rows = sample_rows();
  rows.resize(2);
  EXPECT_EQ(progress_line(progress{}), "waiting for the first window");
  EXPECT_EQ(progress_line(after(rows)), "waiting for the first window  (ada joined: waiting for ben)");
}

TEST(progress, computes_speed_and_eta_from_samples) {
  const auto now = after(sample_rows());
  // 1000 samples of all workers each 2 s; 3000 of 20,000 are done.
  EXPECT_DOUBLE_EQ(now.samples_done(), 3000);
  EXPECT_DOUBLE_EQ(now.samples_per_second(), 500);
  EXPECT_DOUBLE_EQ(now.eta_seconds(), 34);
  EXPECT_THAT(now.batches(), ElementsAre(Pair("ada", 89), Pair("ben", 39)));
  EXPECT_DOUBLE_EQ(now.batch_accuracy(), (0.5 * 890 + 0.8 * 390) / 1280);
}

TEST(progress, shows_everything_on_one_line) {
  auto rows = sample_rows();
  EXPECT_EQ(progress_line(after(rows)),
            "epoch 1/2  15 %  500 samples/s  batch accuracy 59.1 %  ETA 34 s  batch ada 89 ben 39");
  rows.push_back({7, actors::ledger_evaluation{{.test_accuracy = 0.8768}}});
  EXPECT_EQ(progress_line(after(rows)),
            "epoch 1/2  15 %  500 samples/s  test accuracy 87.7 %  ETA 34 s  batch ada 89 ben 39");
}

TEST(progress, counts_completed_epochs) {
  auto rows = sample_rows();
  for (auto& worker : std::get<actors::ledger_window>(rows.back().entry).workers)
    worker.report.epoch = 1;
  EXPECT_DOUBLE_EQ(after(rows).samples_done(), 13'000);
  EXPECT_EQ(progress_line(after(rows)).substr(0, 15), "epoch 2/2  65 %");
  for (auto& worker : std::get<actors::ledger_window>(rows.back().entry).workers) {
    worker.report.epoch = 2;
    worker.report.epoch_samples = 0;
  }
  EXPECT_EQ(progress_line(after(rows)).substr(0, 16), "epoch 2/2  100 %");
}

TEST(progress, measures_a_resumed_run_from_its_resume) {
  auto rows = sample_rows();
  rows.push_back({0, start_row()}); // from a checkpoint after window 1
  EXPECT_EQ(progress_line(after(rows)), "waiting for the first window");
  for (std::uint64_t window = 2; window <= 3; ++window) {
    actors::ledger_window row{.key = {1, window}, .generation = 1};
    row.workers = {worker(report(0, window, 64), {}, 64)};
    row.workers[0].report.elapsed_seconds = 1.0 * static_cast<double>(window);
    rows.push_back({1, row});
  }
  EXPECT_DOUBLE_EQ(after(rows).samples_per_second(), 1000);
}

TEST(progress, does_not_let_stale_reports_move_it) {
  auto rows = sample_rows();
  auto late = std::get<actors::ledger_window>(rows.back().entry);
  late.key.window = 4;
  for (auto& each : late.workers) {
    each.stale = true;
    each.report = report(each.report.rank, 1, 64);
  }
  rows.push_back({8, late});
  EXPECT_DOUBLE_EQ(after(rows).samples_done(), 3000);
  EXPECT_DOUBLE_EQ(after(rows).samples_per_second(), 500);
}

TEST(ledger_tail, reads_each_whole_line_once) {
  const temporary_directory directory;
  const std::string path = directory.path() + "/windows.jsonl";
  ledger_tail tail(path);
  EXPECT_TRUE(tail.read().empty()) << "there is no file yet";
  const std::string line = actors::to_json_line({1, actors::ledger_event{"joined", "ada", ""}});
  std::ofstream file(path);
  file << line << "\n" << line.substr(0, 10) << std::flush;
  EXPECT_EQ(tail.read().size(), 1U);
  EXPECT_TRUE(tail.read().empty()) << "the second line is not whole yet";
  file << line.substr(10) << "\n" << line << "\n" << std::flush;
  EXPECT_EQ(tail.read().size(), 2U);
  EXPECT_TRUE(tail.read().empty());
}

} // namespace
} // namespace dynamix::node
