#include "node/launch/prune.hpp"
#include "node/launch/run_directory.hpp"
#include "storage/atomic_file.hpp"
#include "tests/temporary_directory.hpp"
#include "tests/unit/node/command_answer.hpp"
#include "trainer/checkpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <unistd.h>

namespace dynamix::node {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
namespace fs = std::filesystem;

/// Runs that were last written to some hours ago.
class Prune : public ::testing::Test {
protected:
  run_directory make_run(const std::string& name, int hours_ago) {
    run_directory run(directory_.path() + "/" + name);
    EXPECT_EQ(run.create(), "");
    fs::create_directories(run.path() + "/traces");
    for (const auto& path : {run.cluster_file(), run.ledger(), run.path() + "/traces/ada.jsonl", run.trace()})
      EXPECT_EQ(storage::write_file_atomically(path, std::string(1000, 'x')), "");
    for (const std::uint64_t step : {10, 20, 30})
      write(trainer::checkpoint_path(run.checkpoints(), step), step);
    EXPECT_EQ(
        storage::write_file_atomically(trainer::checkpoint_path(run.checkpoints(), 10) + ".sig", std::string("x")), "");
    for (const auto& entry : fs::recursive_directory_iterator(run.path()))
      if (entry.is_regular_file())
        fs::last_write_time(entry.path(), now_ - std::chrono::hours(hours_ago));
    return run;
  }

  static void write(const std::string& path, std::uint64_t step) {
    trainer::checkpoint state;
    state.step = step;
    state.epoch_samples = 100;
    state.batches = {64, 64};
    EXPECT_EQ(trainer::write_checkpoint(path, state), "");
  }

  prune_plan plan(const prune_options& options = {}) {
    std::string problem;
    auto planned = plan_pruning(directory_.path(), options, now_, problem);
    EXPECT_EQ(problem, "");
    return planned;
  }

  /// Below the directory.
  std::vector<std::string> paths(const prune_plan& planned) const {
    std::vector<std::string> found;
    for (const auto& each : planned.removals)
      found.push_back(fs::relative(each.path, directory_.path()).string());
    return found;
  }

  static std::vector<std::string> files_of(const run_directory& run) {
    std::vector<std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(run.path()))
      found.push_back(entry.path().string());
    std::ranges::sort(found);
    return found;
  }

  temporary_directory directory_;
  const std::chrono::file_clock::time_point now_ = std::chrono::file_clock::now();
};

TEST_F(Prune, KeepsTheNewestCheckpointAndWhatTellsTheRun) {
  const auto run = make_run("a", 2);
  const auto planned = plan();
  EXPECT_THAT(paths(planned), UnorderedElementsAre("a/trace.json", "a/traces/ada.jsonl",
                                                   "a/checkpoints/checkpoint-000000000010.safetensors",
                                                   "a/checkpoints/checkpoint-000000000010.safetensors.sig",
                                                   "a/checkpoints/checkpoint-000000000020.safetensors"));
  EXPECT_THAT(prune(planned), IsEmpty());
  EXPECT_EQ(trainer::newest_checkpoint(run.checkpoints()).state.step, 30U);
  EXPECT_TRUE(fs::exists(run.ledger()));
  EXPECT_THAT(plan().removals, IsEmpty());
}

TEST_F(Prune, KeepsAnOlderCheckpointWhereTheNewestIsDamaged) {
  const auto run = make_run("a", 2);
  fs::resize_file(trainer::checkpoint_path(run.checkpoints(), 30), 20);
  fs::last_write_time(trainer::checkpoint_path(run.checkpoints(), 30), now_ - std::chrono::hours(2));
  EXPECT_THAT(prune(plan()), IsEmpty());
  EXPECT_EQ(trainer::newest_checkpoint(run.checkpoints()).state.step, 20U);
}

TEST_F(Prune, RemovesWholeRunsByNumberAndByAge) {
  make_run("a", 49);
  make_run("b", 30);
  make_run("c", 3);
  EXPECT_THAT(paths(plan({.keep_for = std::chrono::hours(48)})), ::testing::Contains("a"));
  const auto planned = plan({.keep_runs = 1});
  EXPECT_THAT(paths(planned), ::testing::IsSupersetOf({"a", "b"}));
  EXPECT_THAT(prune(planned), IsEmpty());
  EXPECT_FALSE(fs::exists(directory_.path() + "/a"));
  EXPECT_TRUE(fs::exists(directory_.path() + "/c"));
}

TEST_F(Prune, LeavesRunsThatMayBeInUseAndWhatIsNoRun) {
  make_run("a", 0);
  fs::create_directories(directory_.path() + "/data");
  ASSERT_EQ(storage::write_file_atomically(directory_.path() + "/data/cluster.toml", std::string("x")), "");
  make_run("elsewhere/b", 400);
  fs::create_directory_symlink(directory_.path() + "/elsewhere/b", directory_.path() + "/linked");
  const auto planned = plan({.keep_runs = 1, .keep_for = std::chrono::hours(1)});
  EXPECT_THAT(planned.removals, IsEmpty());
  EXPECT_THAT(planned.in_use, ElementsAre(directory_.path() + "/a"));
}

/// Who may write to one run directory made the user who prunes remove what is anywhere.
TEST_F(Prune, FollowsNoLinkThatIsInARun) {
  const auto victim = make_run("elsewhere/b", 400);
  const auto before = files_of(victim);
  for (const auto* part : {"checkpoints", "traces"}) {
    const auto run = make_run("a", 2);
    fs::remove_all(run.path() + "/" + part);
    fs::create_directory_symlink(victim.path() + "/" + part, run.path() + "/" + part);
    EXPECT_THAT(prune(plan()), IsEmpty());
    EXPECT_EQ(files_of(victim), before) << part;
    fs::remove_all(run.path());
  }
}

TEST_F(Prune, FollowsNoLinkThatWasPlantedSinceItWasPlanned) {
  const auto victim = make_run("elsewhere/b", 400);
  const auto before = files_of(victim);
  const auto run = make_run("a", 2);
  const auto planned = plan();
  for (const auto* part : {"checkpoints", "traces"}) {
    fs::remove_all(run.path() + "/" + part);
    fs::create_directory_symlink(victim.path() + "/" + part, run.path() + "/" + part);
  }
  EXPECT_THAT(prune(planned), ::testing::Contains(HasSubstr("cannot remove")));
  EXPECT_EQ(files_of(victim), before);
}

TEST_F(Prune, RemovesOnlyWhenItIsTold) {
  const auto run = make_run("a", 2);
  const auto said = ask({"prune", directory_.path()});
  EXPECT_EQ(said.code, exit_done);
  EXPECT_THAT(said.out, HasSubstr("Nothing was removed: --yes does it"));
  EXPECT_TRUE(fs::exists(run.trace()));
  const auto done = nlohmann::json::parse(ask({"prune", directory_.path(), "--yes", "--json"}).out);
  EXPECT_EQ(done.at("removed"), true);
  EXPECT_EQ(done.at("removals").size(), 5U);
  EXPECT_FALSE(fs::exists(run.trace()));
  EXPECT_THAT(ask({"prune", directory_.path()}).out,
              ::testing::MatchesRegex("Nothing is there to remove; [0-9]+ kB stay\n"));
  EXPECT_EQ(ask({"prune", directory_.path() + "/missing"}).code, exit_refused);
}

TEST_F(Prune, LeavesARunThatIsRunningAloneHoweverLongItHasWrittenNothing) {
  const auto whole = make_run("whole", 100);
  const auto host = make_run("host", 100);
  const auto later = make_run("later", 100);
  fs::create_directories(host.path() + "/logs");
  const auto hold = [](const std::string& path) {
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    EXPECT_EQ(::flock(file, LOCK_EX), 0);
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(100));
    return file;
  };
  const int held[] = {hold(whole.path() + "/run.lock"), hold(host.log("ada") + ".lock")};
  const auto planned = plan({.keep_for = std::chrono::hours(24)});
  EXPECT_THAT(planned.in_use, UnorderedElementsAre(whole.path(), host.path()));
  EXPECT_THAT(paths(planned), ElementsAre("later"));

  const int begun = hold(later.path() + "/run.lock");
  EXPECT_THAT(prune(planned), ElementsAre(HasSubstr("the run goes on")));
  EXPECT_TRUE(fs::exists(later.path()));
  ::close(begun);
  EXPECT_THAT(prune(planned), IsEmpty());
  EXPECT_FALSE(fs::exists(later.path()));
  for (const int each : held)
    ::close(each);
}

TEST_F(Prune, RemovesWhatInterruptedWritesAndNoticesHaveLeft) {
  const auto run = make_run("run", 5);
  const auto torn = trainer::checkpoint_path(run.checkpoints(), 40) + ".aB3xYz";
  for (const auto& path : {torn, run.path() + "/preemption-ada"}) {
    ASSERT_EQ(storage::write_file_atomically(path, std::string("x")), "");
    fs::last_write_time(path, now_ - std::chrono::hours(5));
  }
  EXPECT_THAT(paths(plan()), ::testing::IsSupersetOf(
                                 {fs::relative(torn, directory_.path()).string(), std::string("run/preemption-ada")}));
}

} // namespace
} // namespace dynamix::node
