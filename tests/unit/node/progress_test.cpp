#include "node/ledger_tail.hpp"
#include "node/progress.hpp"
#include "tests/unit/node/sample_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
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

/// Two epochs of 10,000 samples, the first 3,000 done at 500 a second, with a target.
std::vector<actors::ledger_row> rows_with_target(double target) {
  auto rows = sample_rows();
  std::get<actors::ledger_start>(rows[0].entry).target_accuracy = target;
  return rows;
}

TEST(progress, says_at_most_where_a_target_may_end_it_before) {
  EXPECT_THAT(progress_line(after(rows_with_target(0.9))), ::testing::HasSubstr("ETA at most 34 s  batch"));
}

TEST(progress, expects_the_target_where_the_error_comes_to_it) {
  auto rows = rows_with_target(0.9);
  // The test error falls as 10 / sqrt(samples): 0.1 at 10,000 samples.
  for (const double samples : {1000.0, 2000.0, 3000.0})
    rows.push_back({7, actors::ledger_evaluation{{.samples = static_cast<std::uint64_t>(samples),
                                                  .test_accuracy = 1 - 10 / std::sqrt(samples)}}});
  EXPECT_NEAR(after(rows).target_eta_seconds(), 14, 1e-9) << "7,000 samples at 500 a second";
  EXPECT_THAT(progress_line(after(rows)), ::testing::HasSubstr("ETA at most 34 s, 90.0 % in about 14 s  batch"));
  rows[0] = rows_with_target(0.95)[0]; // 40,000 samples: the epochs end before
  EXPECT_LT(after(rows).target_eta_seconds(), 0);
  rows[0] = rows_with_target(0)[0];
  EXPECT_LT(after(rows).target_eta_seconds(), 0);
}

TEST(progress, expects_no_target_where_accuracy_does_not_rise) {
  auto rows = rows_with_target(0.9);
  for (const std::uint64_t samples : {1000, 2000, 3000})
    rows.push_back({7, actors::ledger_evaluation{{.samples = samples, .test_accuracy = 0.5}}});
  EXPECT_LT(after(rows).target_eta_seconds(), 0);
}

TEST(progress, names_many_workers_by_their_bounds) {
  auto rows = sample_rows();
  auto& workers = std::get<actors::ledger_window>(rows.back().entry).workers;
  while (workers.size() < 40)
    workers.push_back(workers.front());
  workers.back().report.batch = 300;
  EXPECT_THAT(progress_line(after(rows)), ::testing::EndsWith("batch 39 to 300"));
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
