#include "node/reports/report.hpp"
#include "node/reports/sheet.hpp"
#include "tests/unit/dashboard/inlined_data.hpp"
#include "tests/unit/node/sample_run.hpp"

#include <cmath>

namespace dynamix::node {
namespace {

using namespace testing;
using dashboard::testing::inlined_data;
using nlohmann::json;

json page_of(const run_records& records) {
  return inlined_data(report_page(records, summarise(records), "dynamix-node 9.9 (abc)"));
}

const json& table_of(const json& page, const std::string& heading) {
  for (const auto& table : page["tables"])
    if (table["heading"] == heading)
      return table["rows"];
  static const json none = json::array();
  return none;
}

TEST(RunPage, HoldsTheStateTheSummaryItsTablesAndTheClusterFile) {
  SKIP_WITHOUT_PAGE();
  auto written = sample_records();
  written.evaluations = {
      {.step = 30, .epoch = 1, .samples = 3000, .elapsed_seconds = 6, .test_loss = -0.5, .test_accuracy = 0.8}};
  written.rows.push_back({4.5, ledger::event{ledger::event_kind::lost, "ben", "it has been <silent>"}});
  written.rows.push_back({6, ledger::evaluation{written.evaluations[0]}});
  const run_records records = written;
  auto summary = summarise(records);
  summary.warnings = {"something <odd>"};
  const auto page = inlined_data(report_page(records, summary, "dynamix-node 9.9 (abc)"));
  EXPECT_EQ(page["state"]["now"]["windows"], 3);
  EXPECT_EQ(page["state"]["worker_history"]["batch"][0], json({64, 64, 89}));
  EXPECT_EQ(page["state"]["events"].back()["text"], "it has been <silent>");
  EXPECT_EQ(page["summary"], json::parse(to_json(summary)));
  EXPECT_EQ(page["summary"]["warnings"], json({"something <odd>"}));
  EXPECT_EQ(table_of(page, "Result")[1], json({"cluster", "pair, policy ppo (train), seed 3"}));
  EXPECT_EQ(table_of(page, "Evaluations")[1][5], "-") << "nobody reported a training loss";
  EXPECT_EQ(table_of(page, "Evaluations")[1][6], "-0.5000");
  EXPECT_EQ(table_of(page, "Evaluations")[1][7], "80.00 %");
  ASSERT_FALSE(page["state"]["evaluations"].empty());
  EXPECT_EQ(page["state"]["evaluations"].back()["test_loss"], -0.5);
  EXPECT_EQ(page["state"]["evaluations"].back()["train_loss"], nullptr);
  EXPECT_EQ(table_of(page, "Versions").back(), json({"this page", "dynamix-node 9.9 (abc)"}));
  EXPECT_NE(page["cluster_file"].get<std::string>().find("name = \"pair\""), std::string::npos);
}

TEST(RunPage, ShowsNoAccuracyOfAScriptThatTellsItsLossAlone) {
  SKIP_WITHOUT_PAGE();
  auto written = sample_records();
  written.evaluations = {{.step = 30, .epoch = 1, .test_loss = 2.5}};
  written.rows.push_back({6, ledger::evaluation{written.evaluations[0]}});
  const auto page = page_of(written);
  EXPECT_EQ(table_of(page, "Evaluations")[1][6], "2.5000");
  EXPECT_EQ(table_of(page, "Evaluations")[1][7], "-");
  EXPECT_EQ(page["state"]["evaluations"].back()["test_accuracy"], nullptr);
}

TEST(RunPage, BearsARunWithoutAWindow) {
  SKIP_WITHOUT_PAGE();
  auto records = sample_records();
  records.rows.resize(2);
  records.farewells.clear();
  const auto page = page_of(records);
  EXPECT_EQ(page["state"]["now"]["windows"], 0);
  EXPECT_EQ(table_of(page, "Evaluations"), json::array());
}

TEST(RunPage, SaysThatASimulatedRunIsOne) {
  SKIP_WITHOUT_PAGE();
  auto records = sample_records();
  records.rows.push_back({0, ledger::event{ledger::event_kind::simulated, "", ""}});
  EXPECT_EQ(table_of(page_of(records), "Result").back()[0], "simulated");
}

TEST(RunPage, StaysSmallWithAThousandWorkers) {
  SKIP_WITHOUT_PAGE();
  auto written = sample_records();
  written.rows.resize(2);
  written.file.hosts.resize(1);
  for (std::uint32_t rank = 1; rank < 1024; ++rank) {
    written.file.hosts.push_back(written.file.hosts[0]);
    written.file.hosts.back().name = "host-" + std::to_string(rank);
  }
  for (std::uint64_t window = 1; window <= 200; ++window) {
    ledger::window row{.key = {1, window}, .generation = 1};
    for (std::uint32_t rank = 0; rank < 1024; ++rank) {
      row.workers.push_back(worker(report(rank, window, 32 + rank), {}, 64));
      row.workers.back().report.host = written.file.hosts[rank].name;
      row.workers.back().report.training.compute_seconds = 0.1 + 1e-6 * static_cast<double>(rank * window);
    }
    written.rows.push_back({2.0 * static_cast<double>(window), row});
  }
  const run_records records = written;
  const auto text = report_page(records, summarise(records), "");
  EXPECT_LT(text.size(), 3'000'000U);
  const auto history = inlined_data(text)["state"]["worker_history"];
  ASSERT_EQ(history["batch"].size(), 1024U);
  EXPECT_EQ(history["batch"][5].size(), 100U) << "two windows in one column";
  EXPECT_EQ(history["stride"], 2);
  EXPECT_EQ(history["batch"][5][0], 37);
}

TEST(SheetPage, HoldsTablesLinesAndBars) {
  SKIP_WITHOUT_PAGE();
  const sheet_line line{
      .name = "a", .x = {1, 2}, .y = {3, std::nan("")}, .low = {2, std::nan("")}, .high = {4, std::nan("")}};
  const sheet_section section{.heading = "One <two>",
                              .paragraphs = {"text"},
                              .warnings = {"odd"},
                              .table = {{"head"}, {"cell"}},
                              .charts = {{.title = "lines", .format = "share", .lines = {line}},
                                         {.title = "bars", .parts = {"all"}, .bars = {{.name = "b", .values = {7}}}},
                                         {.title = "nothing to draw"}}};
  const auto page = inlined_data(sheet_page("A title", "the command", {section}));
  EXPECT_EQ(page["title"], "A title");
  EXPECT_EQ(page["command"], "the command");
  const auto& told = page["sections"][0];
  EXPECT_EQ(told["heading"], "One <two>");
  EXPECT_EQ(told["table"], json({{"head"}, {"cell"}}));
  ASSERT_EQ(told["charts"].size(), 2U);
  EXPECT_EQ(told["charts"][0]["lines"][0]["y"], json({3, nullptr}));
  EXPECT_EQ(told["charts"][0]["lines"][0]["low"], json({2, nullptr}));
  EXPECT_EQ(told["charts"][1]["rows"][0]["values"], json({7}));
  EXPECT_TRUE(told["charts"][1]["rows"][0]["low"].is_null());
}

} // namespace
} // namespace dynamix::node
