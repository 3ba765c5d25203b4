#include "node/launch/child_process.hpp"
#include "node/launch/command_process.hpp"
#include "node/launch/launcher.hpp"
#include "node/launch/stop_signals.hpp"
#include "storage/atomic_file.hpp"
#include "tests/temporary_directory.hpp"
#include "tests/wait_until.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace dynamix::node {
namespace {

using namespace testing;

child_exit wait_for_end(child_process& process) {
  for (;;) {
    if (const auto ended = process.poll())
      return *ended;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

child_options shell(const std::string& script, const std::string& output) {
  return {.program = "/bin/sh",
          .arguments = {"-c", script},
          .environment = {{"DYNAMIX_TEST", "changed"}},
          .output = output};
}

TEST(ChildProcess, AppendsItsOutputToAFileAndSeesTheChangedEnvironment) {
  const temporary_directory directory;
  const std::string log = directory.path() + "/log";
  for (int round = 0; round < 2; ++round) {
    child_process process;
    ASSERT_EQ(process.start(shell("echo \"$DYNAMIX_TEST\"; echo error >&2; exit 3", log)), "");
    const auto ended = wait_for_end(process);
    EXPECT_FALSE(ended.by_signal);
    EXPECT_EQ(ended.number, 3);
    EXPECT_EQ(to_string(ended), "exit code 3");
  }
  std::string text;
  ASSERT_EQ(storage::read_file(log, 1000, text), "");
  EXPECT_EQ(text, "changed\nerror\nchanged\nerror\n");
}

/// A run that is resumed appends to logs that are there: where they, or their directory, are links, to nothing.
TEST(ChildProcess, AppendsToNoLinkAndWaitsForNoPipe) {
  namespace fs = std::filesystem;
  const temporary_directory directory;
  const std::string logs = directory.path() + "/logs";
  const std::string victim = directory.path() + "/victim";
  fs::create_directory(logs);
  fs::create_directory(victim);
  ASSERT_EQ(storage::write_file_atomically(victim + "/log", std::string("own")), "");
  child_process process;
  fs::create_symlink(victim + "/log", logs + "/log");
  EXPECT_THAT(process.start(shell("echo written", logs + "/log")),
              ::testing::HasSubstr("cannot open " + logs + "/log"));
  fs::remove(logs + "/log");
  ASSERT_EQ(::mkfifo((logs + "/log").c_str(), 0600), 0);
  EXPECT_NE(process.start(shell("echo written", logs + "/log")), "");
  fs::remove_all(logs);
  fs::create_directory_symlink(victim, logs);
  EXPECT_NE(process.start(shell("echo written", logs + "/log")), "");
  std::string text;
  ASSERT_EQ(storage::read_file(victim + "/log", 1000, text), "");
  EXPECT_EQ(text, "own");
}

TEST(ChildProcess, TellsADeathBySignal) {
  const temporary_directory directory;
  child_process process;
  ASSERT_EQ(process.start(shell("sleep 60", directory.path() + "/log")), "");
  EXPECT_TRUE(process.running());
  process.signal(SIGKILL);
  EXPECT_EQ(to_string(wait_for_end(process)), "signal 9, Killed");
  EXPECT_FALSE(process.running());
}

TEST(ChildProcess, GetsNoBlockedSignalsFromItsParent) {
  const stop_signals blocks_them;
  const temporary_directory directory;
  child_process process;
  ASSERT_EQ(process.start(shell("exec sleep 60", directory.path() + "/log")), "");
  process.signal(SIGTERM);
  EXPECT_EQ(wait_for_end(process).number, SIGTERM);
}

/// `timeout`, or a terminal, signals the whole group of whoever starts children: those that have only been forked yet
/// too, which would die of what their parent is to pass on in its own way.
TEST(ChildProcess, OutlivesASignalToTheGroupThatItIsStartedIn) {
  constexpr int children = 200;
  const temporary_directory directory;
  const pid_t group = fork();
  if (group == 0) { // a group of its own, of which this test is no member
    setpgid(0, 0);
    sigset_t held;
    sigemptyset(&held);
    sigaddset(&held, SIGINT);
    sigprocmask(SIG_BLOCK, &held, nullptr);
    std::jthread sender([](const std::stop_token& stop) {
      while (!stop.stop_requested())
        kill(0, SIGINT);
    });
    int died = 0;
    for (int i = 0; i < children; ++i) {
      child_process process;
      if (!process.start(shell("exit 0", directory.path() + "/log")).empty() || !wait_for_end(process).well())
        ++died;
    }
    sender = {};
    _exit(died);
  }
  int status = 0;
  ASSERT_EQ(waitpid(group, &status, 0), group);
  ASSERT_TRUE(WIFEXITED(status)) << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0) << "of " << children << " children died";
}

/// Whoever logs out hangs up all that nohup has started, and not its leader alone.
TEST(ChildProcess, IgnoresHangUpsWhereItsParentDoes) {
  const temporary_directory directory;
  child_process process;
  auto* const before = std::signal(SIGHUP, SIG_IGN);
  const auto problem = process.start(shell("kill -HUP $$; kill -INT $$; sleep 60", directory.path() + "/log"));
  std::signal(SIGHUP, before); // before anything that can end the test
  ASSERT_EQ(problem, "");
  EXPECT_EQ(wait_for_end(process).number, SIGINT);
}

TEST(ChildProcess, RunsAgainWhereOneBeforeHasEnded) {
  const temporary_directory directory;
  child_process process;
  ASSERT_EQ(process.start(shell("exit 3", directory.path() + "/log")), "");
  EXPECT_EQ(wait_for_end(process).number, 3);
  ASSERT_EQ(process.start(shell("exec sleep 60", directory.path() + "/log")), "");
  EXPECT_TRUE(process.running());
  const pid_t second = process.id();
  ASSERT_EQ(process.start(shell("exit 4", directory.path() + "/log")), "");
  EXPECT_EQ(kill(second, 0), -1) << "nobody else would end it";
  EXPECT_EQ(wait_for_end(process).number, 4);
}

TEST(ChildProcess, DoesNotOutliveItsOwner) {
  const temporary_directory directory;
  pid_t id = 0;
  {
    child_process process;
    ASSERT_EQ(process.start(shell("exec sleep 60", directory.path() + "/log")), "");
    id = process.id();
  }
  EXPECT_EQ(kill(id, 0), -1);
}

/// More than the pipe of a user without privileges may hold.
TEST(ChildProcess, IsToldMoreThanAPipeHoldsAndItsSignalsBehindIt) {
  const temporary_directory directory;
  std::filesystem::permissions(directory.path(), std::filesystem::perms::all);
  const std::string log = directory.path() + "/log";
  const std::string text = std::string(3U << 20, 'x') + "\n";
  auto options = shell("cat", log);
  options.told = text;
  const bool is_root = ::geteuid() == 0;
  ASSERT_EQ(is_root ? ::seteuid(65534) : 0, 0);
  child_process process;
  const auto problem = process.start(options);
  ASSERT_EQ(is_root ? ::seteuid(0) : 0, 0);
  ASSERT_EQ(problem, "");
  process.signal(SIGUSR1);
  std::string said;
  EXPECT_TRUE(wait_until([&] {
    EXPECT_TRUE(process.running());
    return storage::read_file(log, 8U << 20, said) == "" && said.size() == text.size() + 5;
  }));
  EXPECT_TRUE(said == text + "USR1\n");
  process.signal(SIGKILL); // it ends at the end of what it reads
  wait_for_end(process);
}

TEST(ChildProcess, IsKilledWhereItHasNotReadWhatItIsToBeginWith) {
  const temporary_directory directory;
  auto options = shell("exec sleep 60", directory.path() + "/log");
  options.told = std::string(1U << 20, 'x');
  child_process process;
  ASSERT_EQ(process.start(options), "");
  process.signal(SIGKILL);
  EXPECT_EQ(wait_for_end(process).number, SIGKILL);
}

TEST(ChildProcess, SaysWhyItCannotStart) {
  child_process process;
  EXPECT_THAT(process.start(shell("true", "/nonexistent/log")), ::testing::HasSubstr("cannot open /nonexistent/log"));
  EXPECT_FALSE(process.running());
  const temporary_directory directory;
  ASSERT_EQ(
      process.start(
          {.program = "/nonexistent/program", .arguments = {}, .environment = {}, .output = directory.path() + "/log"}),
      "");
  EXPECT_EQ(wait_for_end(process).number, 127);
}

/// `exec` stops for them: there is nobody else to heed them.
TEST(CommandProcess, CountsWhatAsksItToStopWhileThereIsNoCommand) {
  command_process command;
  ASSERT_EQ(command.start({"sleep", "60"}, {}), "");
  kill(getpid(), SIGTERM);
  EXPECT_EQ(command.wait().number, SIGTERM) << "it was passed on";
  EXPECT_EQ(command_process::asked_to_stop(), 0);
  kill(getpid(), SIGUSR1);
  EXPECT_EQ(command_process::asked_to_stop(), 0);
  kill(getpid(), SIGINT);
  kill(getpid(), SIGTERM);
  EXPECT_EQ(command_process::asked_to_stop(), 2);
  EXPECT_EQ(command_process::asked_by(), SIGTERM);
}

} // namespace
} // namespace dynamix::node
