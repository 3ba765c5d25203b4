#include "ledger/codec.hpp"
#include "node/launch/keys.hpp"
#include "node/launch/local_run.hpp"
#include "node/launch/run_lock.hpp"
#include "storage/atomic_file.hpp"
#include "tests/temporary_directory.hpp"
#include "tests/unit/node/sample_run.hpp"
#include "tests/wait_until.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace dynamix::node {
namespace {

using namespace testing;
using ::testing::HasSubstr;

class RunLock : public ::testing::Test {
protected:
  void SetUp() override { ASSERT_EQ(run_.create(), ""); }

  /// Another process that does `what`, then says so, and lives until it is killed.
  pid_t another(const std::function<void()>& what) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    const pid_t id = fork();
    if (id == 0) {
      what();
      [[maybe_unused]] const auto said = write(ends[1], "x", 1);
      for (;;)
        pause();
    }
    char read_byte = 0;
    EXPECT_EQ(read(ends[0], &read_byte, 1), 1);
    close(ends[0]);
    close(ends[1]);
    return id;
  }
  static void kill_and_wait(pid_t id) {
    kill(id, SIGKILL);
    waitpid(id, nullptr, 0);
  }

  temporary_directory directory_;
  run_directory run_{directory_.path() + "/run"};
};

TEST_F(RunLock, IsKeptByOneProcessAndGoesWithIt) {
  const auto holder = another([this] { lock_run(run_); });
  EXPECT_EQ(lock_run(run_), "process " + std::to_string(holder) + " runs the hosts in " + run_.path() +
                                " already; wait for its end, or stop it");
  EXPECT_EQ(lock_run(run_, "ada"), "") << "hosts have their own";
  kill_and_wait(holder);
  EXPECT_EQ(lock_run(run_), "");
  EXPECT_EQ(lock_run(run_), "") << "this process has it";
}

TEST_F(RunLock, IsGivenUpBeforeTheDirectoryIsRemoved) {
  EXPECT_FALSE(is_running(run_));
  ASSERT_EQ(lock_run(run_), "");
  EXPECT_TRUE(is_running(run_));
  unlock_run(run_);
  EXPECT_FALSE(is_running(run_));
  std::filesystem::remove_all(run_.path());
  ASSERT_EQ(run_.create(), "");
  ASSERT_EQ(lock_run(run_), "") << "of the new directory, too";
  EXPECT_TRUE(is_running(run_));
  unlock_run(run_);
}

TEST_F(RunLock, IsWaitedForWhileTheOneBeforeEnds) {
  const auto holder = another([this] { lock_run(run_, "ada"); });
  std::jthread later([holder] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    kill_and_wait(holder);
  });
  EXPECT_EQ(lock_run(run_, "ada", std::chrono::minutes(1)), "");
}

TEST_F(RunLock, LetsNobodyPrepareARunThatAnotherRuns) {
  const auto holder = another([this] { prepare_directory(run_, pair_file()); });
  EXPECT_THAT(prepare_directory(run_, pair_file()), HasSubstr(" already"));
  kill_and_wait(holder);
}

/// Values in which copies of a cluster's file may differ: the hosts of a resumed run read them there.
TEST_F(RunLock, PreparesARunWithAllThatTheLauncherResolved) {
  auto file = pair_file();
  ASSERT_EQ(write_cluster_copy(run_, file), "");
  file.run.keep_ledger_mb += 7;
  file.hosts.front().preemption = "/run/notice";
  ASSERT_EQ(prepare_directory(run_, file), "");
  const auto kept = cluster::read_cluster_file(run_.cluster_file());
  EXPECT_EQ(kept.file.run.keep_ledger_mb, file.run.keep_ledger_mb);
  EXPECT_EQ(kept.file.hosts.front().preemption, "/run/notice");
  unlock_run(run_);
}

TEST_F(RunLock, GoesWithTheKeysWhateverEndsTheProcess) {
  const auto holder = another([this] {
    static run_key_guard guard;
    std::string made;
    if (!guard.begin(run_).empty() || !make_run_keys(pair_file(), run_, made).empty())
      _exit(1);
    std::this_thread::sleep_for(std::chrono::milliseconds(200)); // until the guard ignores what ends it
  });
  EXPECT_TRUE(std::filesystem::exists(run_keys(run_)));
  kill_and_wait(holder);
  EXPECT_TRUE(wait_until([&] { return !std::filesystem::exists(run_keys(run_)); }));
}

TEST_F(RunLock, KeepsTheRecordOfARunThatHasComeToItsEnd) {
  auto file = pair_file();
  ASSERT_EQ(write_cluster_copy(run_, file), "");
  EXPECT_EQ(refuse_finished(run_, file), "") << "nobody has said how it ended";
  auto said = farewell(0);
  said.reason = "stopped";
  said.end = messages::farewell_end::stopped;
  const auto write = [&] {
    EXPECT_EQ(storage::write_file_atomically(run_.worker("ada"), ledger::to_json(said, {})), "");
  };
  write();
  EXPECT_EQ(refuse_finished(run_, file), "");
  said.reason = "epochs completed";
  said.end = messages::farewell_end::completed;
  write();
  EXPECT_THAT(refuse_finished(run_, file), HasSubstr("has come to its end (epochs completed)"));
  file.training.epochs += 1;
  EXPECT_EQ(refuse_finished(run_, file), "") << "it has more to do";
}

} // namespace
} // namespace dynamix::node
