#include "ledger/codec.hpp"
#include "node/launch/host_display.hpp"
#include "node/launch/local_run.hpp"
#include "tests/unit/node/sample_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <sstream>
#include <thread>

namespace dynamix::node {
namespace {

using namespace testing;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string shown_in(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(HostDisplay, ShowsTheRunWhereItsLedgerIsWritten) {
  const temporary_directory directory;
  const run_directory run(directory.path() + "/run");
  ASSERT_EQ(run.create(), "");
  const auto file = pair_file();
  const auto shown = directory.path() + "/shown";
  std::ofstream out(shown);
  host_display display(file, file.hosts[0], run, out);
  display.begin(true);
  EXPECT_THAT(shown_in(shown), StartsWith("pair: 2 workers, policy "));
  EXPECT_THAT(shown_in(shown), HasSubstr("run directory " + run.path() + "\npage http://127.0.0.1:8080/\n"));
  for (int looks = 0; looks < 600 && shown_in(shown).find("waiting for") == std::string::npos; ++looks)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_THAT(shown_in(shown), HasSubstr("waiting for the arbitrator\n"));
  display.end(nullptr, "epochs completed");
  EXPECT_THAT(shown_in(shown), HasSubstr("ada has ended: epochs completed\n"));
}

TEST(HostDisplay, NamesTheLogOfAHostThatOnlyTrains) {
  const temporary_directory directory;
  const run_directory run(directory.path() + "/run");
  const auto file = pair_file();
  std::ostringstream out;
  host_display display(file, file.hosts[1], run, out);
  display.begin(false);
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
  made.summary.steps = 3;
  report_end(made, run, false, "", live, out, err);
  EXPECT_THAT(out.str(), HasSubstr("workers\n"));
}

} // namespace
} // namespace dynamix::node
