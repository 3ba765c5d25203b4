#include "node/report_page.hpp"
#include "node/run_plots.hpp"
#include "tests/unit/node/sample_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dynamix::node {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string page_of(const run_records& records) {
  return report_page(records, summarise(records), "dynamix-node 9.9 (abc)");
}

written_run with_story() {
  auto records = sample_records();
  records.evaluations = {
      {.step = 30, .epoch = 1, .samples = 3000, .elapsed_seconds = 6, .test_loss = 0.5, .test_accuracy = 0.8}};
  records.rows.push_back({4.5, ledger::event{"lost", "ben", "it has been <silent>"}});
  records.rows.push_back({5, ledger::generation{.generation = 2, .members = {"ada"}, .reason = "ben is lost"}});
  records.rows.push_back({5.5, ledger::policy_version{.version = 9, .entropy = 0.5, .approximate_kl = 0.01}});
  return records;
}

TEST(report_page, holds_plots_tables_cluster_file_versions_and_warnings) {
  const auto records = with_story();
  auto summary = summarise(records);
  summary.warnings = {"something <odd>"};
  const auto page = report_page(records, summary, "dynamix-node 9.9 (abc)");
  for (const char* part : {"Accuracy over time",
                           "Accuracy over samples",
                           "Loss over time",
                           "Loss over samples",
                           "Batch size of each worker",
                           "Global batch",
                           "Where a step&#39;s time goes",
                           "Throughput",
                           "Mean step of each worker",
                           "Reward",
                           "Exploration: entropy",
                           "Learning: what an update changed",
                           "something &lt;odd&gt;",
                           "dynamix-node 9.9 (abc)",
                           "name = &quot;pair&quot;",
                           "<h2>Workers</h2>",
                           "<h2>Evaluations</h2>",
                           "<h2>Generations and faults</h2>",
                           "ben lost: it has been &lt;silent&gt;",
                           "generation 2 of 1 workers: ben is lost"})
    EXPECT_THAT(page, HasSubstr(part)) << part;
}

TEST(report_page, needs_nothing_from_elsewhere) {
  const auto page = page_of(with_story());
  for (const char* outside : {"<script", "<link", "@import", "src=", "url(", "http://www.w3.org/1999"})
    EXPECT_THAT(page, Not(HasSubstr(outside))) << outside;
  EXPECT_THAT(page, HasSubstr("prefers-color-scheme: dark"));
}

TEST(report_page, bears_a_run_without_a_window) {
  auto records = sample_records();
  records.rows.resize(2);
  records.farewells.clear();
  EXPECT_THAT(page_of(records), HasSubstr("no data"));
}

TEST(report_page, shows_a_thousand_workers_as_a_map) {
  auto records = sample_records();
  records.rows.resize(2);
  records.file.hosts.resize(1);
  for (std::uint32_t rank = 1; rank < 1024; ++rank) {
    records.file.hosts.push_back(records.file.hosts[0]);
    records.file.hosts.back().name = "host-" + std::to_string(rank);
  }
  for (std::uint64_t window = 1; window <= 5; ++window) {
    ledger::window row{.key = {1, window}, .generation = 1};
    for (std::uint32_t rank = 0; rank < 1024; ++rank) {
      row.workers.push_back(worker(report(rank, window, 32 + rank), {}, 64));
      row.workers.back().report.host = records.file.hosts[rank].name;
    }
    records.rows.push_back({2.0 * static_cast<double>(window), row});
  }
  const auto page = page_of(records);
  EXPECT_THAT(page, HasSubstr("Batch sizes: highest, median, lowest"));
  EXPECT_THAT(page, HasSubstr("<image"));
  EXPECT_THAT(page, HasSubstr("slowest to compute"));
  EXPECT_THAT(page, HasSubstr("<summary>1,024 rows</summary>"));
  EXPECT_LT(page.size(), 2'000'000U);
}

std::vector<run_mark> marks_of(const std::vector<ledger::row>& rows) {
  mark_recorder recorder;
  for (const auto& row : rows)
    recorder.add(row);
  return recorder.marks();
}

TEST(run_marks, lie_where_the_windows_around_them_lie) {
  auto rows = with_story().rows;
  const auto marks = marks_of(rows);
  ASSERT_EQ(marks.size(), 2U);
  EXPECT_DOUBLE_EQ(marks[0].seconds, 4.5);
  EXPECT_EQ(marks[0].what, plot_mark::kind::fault);
  EXPECT_EQ(marks[1].what, plot_mark::kind::generation);
  // A second life: its clock is another, its windows go on in training time.
  rows.push_back({0, start_row()});
  rows.push_back({1, ledger::event{"rejoined", "ada", ""}});
  ledger::window row{.key = {1, 4}, .generation = 1};
  row.workers = {worker(report(0, 4, 64), {}, 64)};
  row.workers[0].report.elapsed_seconds = 20;
  rows.push_back({3, row});
  const auto more = marks_of(rows);
  ASSERT_EQ(more.size(), 4U);
  EXPECT_EQ(more[2].text, "the arbitrator started again");
  EXPECT_DOUBLE_EQ(more[2].seconds, 17);
  EXPECT_DOUBLE_EQ(more[3].seconds, 18);
}

TEST(run_marks, take_replicas_that_start_together_for_one_start) {
  auto rows = with_story().rows;
  rows.insert(rows.begin(), 2, {0, start_row()});
  EXPECT_EQ(marks_of(rows).size(), 2U);
}

TEST(run_plots, have_names_for_files) {
  const auto records = with_story();
  const auto summary = summarise(records);
  std::vector<std::string> names;
  for (const auto& plot : plots_of(records, summary, outcome_of(records, summary), {}))
    names.push_back(plot.name);
  EXPECT_THAT(names, ElementsAre("accuracy-over-time", "accuracy-over-samples", "loss-over-time", "loss-over-samples",
                                 "batch-sizes", "global-batch", "step-time", "throughput", "workers", "reward",
                                 "entropy", "learning"));
}

TEST(window_series, splits_a_step_by_its_causes_where_they_are_known) {
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
