#include "ledger/codec.hpp"
#include "ledger/file.hpp"
#include "node/reports/results.hpp"
#include "storage/atomic_file.hpp"
#include "tests/temporary_directory.hpp"
#include "tests/unit/node/sample_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

namespace dynamix::node {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

/// A run that ada alone has finished.
class Results : public ::testing::Test {
protected:
  void SetUp() override {
    ASSERT_EQ(run.create(), "");
    ASSERT_EQ(write_cluster_copy(run, pair_file()), "");
    std::string problem;
    const auto ledger = ledger::open_file(run.ledger(), problem);
    ASSERT_EQ(problem, "");
    for (const auto& row : sample_rows())
      ledger->append(row);
    ASSERT_EQ(storage::write_file_atomically(run.worker("ada"), ledger::to_json(farewell(0), {})), "");
  }

  /// As `report` sums it up later.
  run_summary reported() const {
    std::string problem;
    const auto records = read_run(run, problem);
    EXPECT_EQ(problem, "");
    return summarise_ended(records, read_end_told(run));
  }

  temporary_directory directory;
  run_directory run{directory.path() + "/run"};
};

TEST_F(Results, TellALaterReportWhatTheLauncherKnew) {
  EXPECT_FALSE(reported().succeeded) << "nobody knows what became of ben";
  run_summary summary;
  ASSERT_EQ(write_results(run, {.warnings = {"ben died"}, .restarts = {{"ben", 5}}, .given_up = {"ben"}}, "", summary),
            "");
  EXPECT_TRUE(summary.succeeded);
  const auto later = reported();
  EXPECT_TRUE(later.succeeded) << later.reason;
  EXPECT_THAT(later.restarts_by_host, ElementsAre(Pair("ben", 5)));
  EXPECT_EQ(later.warnings, summary.warnings);
  EXPECT_EQ(later.warnings.front(), "ben died");
}

TEST_F(Results, TellALaterReportWhyTheLauncherCallsTheRunFailed) {
  run_summary summary;
  ASSERT_EQ(write_results(run, {}, "host \"ben\" died", summary), "");
  EXPECT_FALSE(reported().succeeded);
  EXPECT_EQ(reported().reason, "host \"ben\" died");
}

TEST_F(Results, TellNothingOfARunThatHasGoneOnSince) {
  run_summary summary;
  ASSERT_EQ(write_results(run, {.warnings = {"ben died"}}, "host \"ben\" died", summary), "");
  const auto written = std::filesystem::last_write_time(run.summary());
  std::filesystem::last_write_time(run.ledger(), written + std::chrono::seconds(1));
  EXPECT_EQ(read_end_told(run).failure, "");
  EXPECT_THAT(read_end_told(run).observed.warnings, IsEmpty());
}

} // namespace
} // namespace dynamix::node
