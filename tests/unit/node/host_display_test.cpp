#include "dashboard/dashboard.hpp"
#include "ledger/codec.hpp"
#include "links/free_port.hpp"
#include "node/launch/host_display.hpp"
#include "node/launch/local_run.hpp"
#include "tests/temporary_directory.hpp"
#include "tests/unit/node/sample_run.hpp"
#include "tests/wait_until.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/core.h>
#include <fstream>
#include <sstream>

namespace dynamix::node {
namespace {

using namespace testing;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(HostDisplay, ShowsTheRunWhereItsLedgerIsWritten) {
  const temporary_directory directory;
  const run_directory run(directory.path() + "/run");
  ASSERT_EQ(run.create(), "");
  auto file = pair_file();
  file.dashboard.listen = fmt::format("127.0.0.1:{}", links::take_free_port());
  const auto page = dashboard::start(file, "", run.ledger()).http;
  ASSERT_TRUE(page);
  std::ofstream ledger(run.ledger());
  for (const auto& row : sample_rows()) // of an earlier life
    ledger << ledger::to_json_line(row) << '\n';
  ledger.flush();
  const auto shown = directory.path() + "/shown";
  std::ofstream out(shown);
  host_display display(file, file.hosts[0], run, out);
  display.begin(page);
  ledger << ledger::to_json_line(sample_rows().front()) << std::endl; // before the display has looked
  EXPECT_THAT(text_of_file(shown), StartsWith("pair: 2 workers, policy "));
  const auto shows = [&](const std::string& text) {
    return wait_until([&] { return text_of_file(shown).find(text) != std::string::npos; });
  };
  EXPECT_TRUE(shows("run directory " + run.path() + "\n")) << text_of_file(shown);
  EXPECT_TRUE(shows("page http://" + file.dashboard.listen + "/\n")) << text_of_file(shown);
  EXPECT_TRUE(shows("waiting for workers")) << text_of_file(shown);
  display.end(nullptr, "epochs completed");
  EXPECT_THAT(text_of_file(shown), HasSubstr("ada has ended: epochs completed\n"));
}

TEST(HostDisplay, NamesTheLogOfAHostThatOnlyTrains) {
  const temporary_directory directory;
  const run_directory run(directory.path() + "/run");
  const auto file = pair_file();
  std::ostringstream out;
  host_display display(file, file.hosts[1], run, out);
  display.begin(nullptr);
  display.end(nullptr, "asked to stop");
  EXPECT_EQ(out.str(), "ben: worker of pair, run directory " + run.path() + ", log " + run.log("ben") +
                           "\nben has ended: asked to stop\n");
}

TEST(ReportEnd, PrintsNoTablesWhereNothingWasTrained) {
  const run_directory run("nowhere");
  local_run made;
  made.launched.stopped = true;
  std::ostringstream out, err;
  live_output live(out, {});
  report_end(made, run, false, "No checkpoint was written.\n", live, out, err);
  EXPECT_EQ(out.str(), "nothing was trained; run directory: nowhere\n");
  EXPECT_THAT(err.str(), HasSubstr("stopped before the end"));
  made.summary.samples = 96;
  report_end(made, run, false, "", live, out, err);
  EXPECT_THAT(out.str(), HasSubstr("workers\n"));
}

} // namespace
} // namespace dynamix::node
