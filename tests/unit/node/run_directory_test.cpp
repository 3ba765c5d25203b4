#include "cluster/field_changes.hpp"
#include "ledger/codec.hpp"
#include "ledger/segments.hpp"
#include "node/reports/run_records.hpp"
#include "storage/atomic_file.hpp"
#include "tests/temporary_directory.hpp"
#include "tests/unit/node/sample_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>
#include <set>
#include <unistd.h>
#include <vector>

namespace dynamix::node {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

TEST(RunDirectory, HasADefaultNameOfClusterPolicyAndTimeThatNoOtherRunHas) {
  const temporary_directory directory;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(directory.path());
  std::vector<run_directory> runs;
  std::set<std::string> made;
  for (int run = 0; run < 5; ++run) // more than begin in seconds of their own
    made.insert(runs.emplace_back(make_default_run(pair_file())).path());
  EXPECT_EQ(made.size(), 5U);
  EXPECT_THAT(made, ::testing::Each(MatchesRegex("runs/pair-ppo-[0-9]{8}-[0-9]{6}(-[2-5])?")));
  for (const auto& path : made)
    EXPECT_TRUE(std::filesystem::is_empty(path)) << path;
  std::filesystem::remove_all("runs");
  ASSERT_EQ(storage::write_file_atomically("runs", std::string("no directory")), "");
  EXPECT_THAT(make_default_run("x").create(), HasSubstr("cannot make runs/x-"));
  std::filesystem::current_path(before);
}

TEST(RunDirectory, GoesAgainWhereAStartWasRefusedBeforeAnythingWasWritten) {
  const temporary_directory directory;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(directory.path());
  std::string used;
  {
    const auto refused = make_default_run("refused");
    EXPECT_TRUE(refused.exists());
  }
  EXPECT_FALSE(std::filesystem::exists("runs"));
  {
    const auto run = make_default_run("used");
    used = run.path();
    EXPECT_EQ(run.create(), "");
    make_default_run("refused");
  }
  EXPECT_TRUE(std::filesystem::exists(used + "/logs"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator("runs"), {}), 1);
  std::filesystem::current_path(before);
}

TEST(RunDirectory, IsMadeWithWhatHostsWriteInto) {
  const temporary_directory directory;
  const run_directory run(directory.path() + "/a/b");
  EXPECT_TRUE(run.empty());
  EXPECT_EQ(run.create(), "");
  EXPECT_FALSE(run.empty());
  EXPECT_TRUE(std::filesystem::is_directory(run.checkpoints()));
  EXPECT_TRUE(std::filesystem::is_directory(std::filesystem::path(run.log("ada")).parent_path()));
}

TEST(RunDirectory, CannotBeMadeBelowAFile) {
  const temporary_directory directory;
  ASSERT_EQ(storage::write_file_atomically(directory.path() + "/file", std::string("x")), "");
  EXPECT_THAT(run_directory(directory.path() + "/file").create(), HasSubstr("cannot make "));
}

TEST(RunDirectory, TellsOfALedgerThatCannotBeRead) {
  const temporary_directory directory;
  std::filesystem::permissions(directory.path(), std::filesystem::perms::all);
  const run_directory run(directory.path());
  ASSERT_EQ(write_cluster_copy(run, pair_file()), "");
  ASSERT_EQ(storage::write_private_file(run.ledger(), {}), "");
  const bool is_root = ::geteuid() == 0; // who may read everything
  if (!is_root)
    std::filesystem::permissions(run.ledger(), std::filesystem::perms::none);
  ASSERT_EQ(is_root ? ::seteuid(65534) : 0, 0);
  std::string problem;
  read_run(run, problem);
  ASSERT_EQ(is_root ? ::seteuid(0) : 0, 0);
  EXPECT_EQ(problem, "cannot read " + run.ledger() + ": Permission denied");
}

TEST(RunDirectory, HoldsTheClusterFileAsItWasUsed) {
  const temporary_directory directory;
  const run_directory run(directory.path());
  auto file = pair_file();
  ASSERT_EQ(cluster::set_field(file, "arbitrator.policy", "static"), "");
  ASSERT_EQ(write_cluster_copy(run, file), "");
  const auto copy = cluster::read_cluster_file(run.cluster_file());
  ASSERT_TRUE(copy.errors.empty());
  EXPECT_EQ(copy.file.digest(), file.digest());
}

TEST(RunDirectory, GivesBackWhatHostsHaveWritten) {
  const temporary_directory directory;
  const run_directory run(directory.path());
  ASSERT_EQ(run.create(), "");
  ASSERT_EQ(write_cluster_copy(run, pair_file()), "");
  std::string lines;
  auto rows = sample_rows();
  rows.push_back({8, ledger::farewell{farewell(0)}});
  rows.push_back({8, ledger::farewell{farewell(1)}});
  rows.push_back({9, ledger::evaluation{{.step = 10, .test_accuracy = 0.5}}});
  for (const auto& row : rows)
    lines += ledger::to_json_line(row) + "\n";
  ASSERT_EQ(storage::write_file_atomically(run.ledger(), lines), "");
  auto own = farewell(0);
  own.telemetry_seconds = 0;
  own.steps = 31;
  ASSERT_EQ(
      storage::write_file_atomically(run.worker("ada"), ledger::to_json(own, {{.step = 20, .test_accuracy = 0.6}})),
      "");

  std::string error;
  const auto records = read_run(run, error);
  EXPECT_EQ(error, "");
  EXPECT_EQ(records.run.totals().rows, rows.size());
  EXPECT_EQ(records.recorder.outcome().windows, 2U);
  ASSERT_EQ(records.farewells.size(), 2U);
  EXPECT_EQ(records.farewells[0].steps, 31U) << "a worker's own file counts more than the ledger";
  EXPECT_EQ(records.farewells[0].telemetry_seconds, 0.012) << "which only the ledger knows";
  EXPECT_EQ(records.farewells[1].host, "ben");
  ASSERT_EQ(records.evaluations.size(), 2U);
  EXPECT_EQ(records.evaluations[1].step, 20U);
}

TEST(RunDirectory, TellsOfDamageBehindTheLastLine) {
  const temporary_directory directory;
  const run_directory run(directory.path());
  ASSERT_EQ(run.create(), "");
  ASSERT_EQ(write_cluster_copy(run, pair_file()), "");
  const auto damaged = ledger::segment_path(run.ledger(), 0) + ".gz";
  ASSERT_EQ(storage::write_file_atomically(damaged, std::string("\x1f\x8b\x08 cut short")), "");
  ASSERT_EQ(storage::write_file_atomically(run.ledger(), std::string()), "");
  std::string error;
  EXPECT_THAT(read_run(run, error).run.warnings(), ElementsAre(HasSubstr(damaged + " is damaged")));
}

TEST(RunDirectory, WithoutAClusterFileIsNoRun) {
  const temporary_directory directory;
  std::string error;
  read_run(run_directory(directory.path()), error);
  EXPECT_THAT(error, HasSubstr("is not a run directory"));
}

} // namespace
} // namespace dynamix::node
