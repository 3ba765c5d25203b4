/// Hosts that are reached by ssh: an sshd of the test's own on loopback, and every host in a directory of its own.

#include "ledger/line_reader.hpp"
#include "ledger/segments.hpp"
#include "storage/atomic_file.hpp"
#include "tests/cluster/scripted_client.hpp"
#include "tests/cluster/sshd.hpp"
#include "tests/cluster/trial.hpp"

#include <charconv>
#include <deque>
#include <filesystem>
#include <thread>

namespace dynamix::cluster_test {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class Launch : public trial {
protected:
  void SetUp() override {
    if (!std::filesystem::exists(sshd::program))
      GTEST_SKIP() << sshd::program << " is not installed";
  }

  /// The cluster's file, and an sshd that only the key of this test opens. `shell`: what people log in to, with a home
  /// of the test's own; empty: as this user.
  void start_machines(const trial_options& options, const std::string& shell = "") {
    write_file(options);
    sshd_.start(directory_.path(), shell);
  }

  program launch(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {"launch",    "--cluster",         file(), "--ssh", ssh(),
                                          "--program", DYNAMIX_NODE_PROGRAM};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const auto given = [&](const char* option) { return std::ranges::find(more, option) != more.end(); };
    if (!given("--resume") && !given("--out"))
      arguments.insert(arguments.end(), {"--out", run().path()});
    if (!given("--directory"))
      arguments.insert(arguments.end(), {"--directory", in("there")});
    return start(arguments);
  }

  /// Of `dynamix-node run` on `host`; 0 while there is none.
  pid_t process_of(const std::string& host) const {
    const auto named =
        std::string("run") + '\0' + "--cluster" + '\0' + "cluster.toml" + '\0' + "--name" + '\0' + host + '\0';
    return find_process(named, in("there/" + host));
  }
  /// By words of its command line, and where it works unless that is empty.
  static pid_t find_process(const std::string& words, const std::string& directory = {}) {
    std::error_code error; // processes come and go
    for (std::filesystem::directory_iterator entry("/proc", error), end; !error && entry != end;
         entry.increment(error)) {
      const auto name = entry->path().filename().string();
      pid_t id = 0;
      std::error_code gone;
      if (std::from_chars(name.data(), name.data() + name.size(), id).ptr == name.data() + name.size() &&
          contents_of(entry->path().string() + "/cmdline").find(words) != std::string::npos &&
          (directory.empty() ||
           std::filesystem::read_symlink(entry->path() / "cwd", gone) == std::filesystem::path(directory)))
        return id;
    }
    return 0;
  }
  bool none_left() const {
    return wait_until([&] { return process_of("hub") == 0 && process_of("w0") == 0 && process_of("w1") == 0; });
  }

  static std::vector<std::string> lines_of(const std::string& ledger) {
    ledger::line_reader reader(ledger);
    std::vector<std::string> lines;
    for (std::string line; reader.next(line);)
      lines.push_back(line);
    return lines;
  }

  /// A start-up file of the shell that people log in to.
  void write_home(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(in("home/" + name)).parent_path());
    ASSERT_EQ(storage::write_file_atomically(in("home/" + name), text), "");
  }

  std::string in(const std::string& name) const { return directory_.path() + "/" + name; }
  std::string ssh() const { return sshd_.ssh(); }

private:
  sshd sshd_;
};

TEST_F(Launch, TrainsOnHostsThatShareNothingAndBringsTheRunHome) {
  start_machines({.cluster = patient_cluster});
  const auto ended = launch({"--log"}).wait();
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_THAT(ended.output, AllOf(HasSubstr("w0 | "), HasSubstr("generation_formed"), HasSubstr("result")));
  EXPECT_GT(windows().size(), 0U);
  EXPECT_TRUE(farewell_of("w0").succeeded);
  EXPECT_TRUE(farewell_of("w1").succeeded);
  EXPECT_THAT(contents_of(run().summary()), HasSubstr("\"succeeded\": true"));
  EXPECT_EQ(contents_of(run().ledger()), contents_of(in("there/hub/windows.jsonl"))) << "to the last row";
  for (const auto* host : {"hub", "w0", "w1"})
    EXPECT_FALSE(std::filesystem::exists(in("there/") + host + "/keys")) << "keys are gone with the run";
  EXPECT_FALSE(std::filesystem::exists(run().path() + "/keys"));
}

TEST_F(Launch, StartsAHostAgainThatDiedAndStopsAllOnCtrlC) {
  start_machines({.epochs = 1000, .cluster = patient_cluster});
  auto launched = launch();
  ASSERT_TRUE(wait_for_windows(2)) << launched.said();
  const auto before = generations().back().generation;
  ASSERT_EQ(kill(process_of("w0"), SIGKILL), 0);
  EXPECT_TRUE(wait_for_generation({"w0", "w1"}, before)) << launched.said();
  launched.signal(SIGINT);
  const auto ended = launched.wait();
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.output, AllOf(HasSubstr("w0 died"), HasSubstr("w0 is back"), HasSubstr("stopped before the end"),
                                  HasSubstr(" --program " DYNAMIX_NODE_PROGRAM " --directory " + in("there") + "\n")));
  EXPECT_TRUE(none_left());
  EXPECT_EQ(contents_of(run().ledger()), contents_of(in("there/hub/windows.jsonl"))) << "each row once";

  auto resumed = launch({"--resume", run().path(), "--epochs", "1"});
  EXPECT_EQ(resumed.wait().code, 0) << resumed.said();
}

TEST_F(Launch, LeavesNoProcessBehindWhereItDies) {
  start_machines({.epochs = 1000, .cluster = patient_cluster});
  auto launched = launch();
  ASSERT_TRUE(wait_for_windows(1)) << launched.said();
  launched.signal(SIGKILL);
  EXPECT_TRUE(none_left());
  EXPECT_TRUE(wait_until([&] { return !std::filesystem::exists(in("there/w0/keys")); })) << "nor keys";
}

TEST_F(Launch, KeepsLedgersInPartsThereAndHereAndLosesNoRowOfThem) {
  start_machines({.epochs = 4, .more = "[run]\nkeep_ledger_mb = 1\n", .cluster = patient_cluster});
  auto launched = launch();
  ASSERT_TRUE(wait_for_windows(2)) << launched.said();
  const auto copying = std::string("ledger") + '\0' + "--run" + '\0' + in("there/hub") + '\0';
  const auto follower = find_process(copying);
  ASSERT_NE(follower, 0);
  kill(follower, SIGKILL); // as where the connection breaks
  const auto ended = launched.wait();
  EXPECT_EQ(ended.code, 0) << ended.output;
  const auto there = in("there/hub/windows.jsonl");
  EXPECT_THAT(ledger::segments_of(there), Not(IsEmpty()));
  EXPECT_THAT(ledger::segments_of(run().ledger()), Not(IsEmpty()));
  EXPECT_EQ(lines_of(run().ledger()), lines_of(there)) << "each row once";
  EXPECT_TRUE(wait_until([&] { return find_process(copying) == 0; })) << "nobody reads it any more";
}

TEST_F(Launch, StartsTheAgentOfSeveralWorkersAHostAndBringsTheirFarewellsHome) {
  start_machines({.dataset = "unused",
                  .training = "trainer = \"client\"\n",
                  .arbitrator = "policy = \"goodput\"\n",
                  .cluster = patient_cluster});
  replace_in_file("name = \"w0\"\n", "name = \"w0\"\nworkers = 2\n");
  auto launched = launch();
  std::deque<scripted_client> clients;
  for (const auto& [host, slot] : {std::pair("w0", 0), {"w0", 1}, {"w1", 0}}) {
    const node::run_directory there(in("there/") + host);
    ASSERT_TRUE(wait_until([&] { return std::filesystem::exists(there.agent(slot)) || !launched.running(); }));
    ASSERT_TRUE(launched.running()) << launched.said();
    clients.emplace_back(there.agent(slot), 3);
  }
  for (auto& one : clients) {
    ASSERT_TRUE(one.await_place()) << launched.said();
    one.train_window();
  }
  for (auto& one : clients)
    ASSERT_TRUE(one.await_decision()) << launched.said();
  for (auto& one : clients)
    one.say_farewell();
  const auto ended = launched.wait();
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("dynamix-node exec --run " + in("there") + "/HOST --name HOST -- ..."));
  for (const auto* worker : {"w0/0", "w0/1", "w1"})
    EXPECT_TRUE(farewell_of(worker).succeeded) << worker;
}

TEST_F(Launch, InitAsksMachinesWhatTheyHaveAndNamesThoseThatDoNotAnswer) {
  start_machines({});
  const auto path = in("made.toml");
  const auto made = end_of({"init", "--hosts", "here=127.0.0.1,gone=127.0.0.9", "--probe", "--ssh", ssh(), "--program",
                            DYNAMIX_NODE_PROGRAM, "--out", path});
  EXPECT_EQ(made.code, 0) << made.output;
  EXPECT_THAT(made.output, ContainsRegex("here: [0-9]+ cores, [0-9.]+ GiB of memory, link .*, [0-9]+ samples/s of "));
  EXPECT_THAT(made.output, HasSubstr("warning: gone did not answer: ssh: connect to host 127.0.0.9"));
  EXPECT_THAT(contents_of(path), AllOf(ContainsRegex("\n# [0-9]+ cores, .* samples/s of .*\nname = \"here\"\n"),
                                       ContainsRegex("\n# did not answer: ssh: .*\nname = \"gone\"\n")));
  EXPECT_EQ(end_of({"check", "--cluster", path}).code, 0);
}

/// What start-up files say on standard output comes before every answer: farewells, ledger, probe.
class LaunchIntoShells : public Launch {
protected:
  void train_through(const std::string& shell, const std::string& file_name, const std::string& text) {
    if (!std::filesystem::exists(shell))
      GTEST_SKIP() << shell << " is not installed";
    write_home(file_name, text);
    start_machines({.cluster = patient_cluster}, shell);
    const auto ended = launch().wait();
    EXPECT_EQ(ended.code, 0) << ended.output;
    EXPECT_THAT(ended.output, Not(HasSubstr("warning:"))) << ended.output;
    EXPECT_TRUE(farewell_of("w0").succeeded);
    EXPECT_TRUE(farewell_of("w1").succeeded);
    EXPECT_EQ(contents_of(run().ledger()), contents_of(in("there/hub/windows.jsonl")))
        << "to the last row, from the first";
    const auto path = in("made.toml");
    const auto made = end_of({"init", "--hosts", "here=127.0.0.1", "--probe", "--ssh", ssh(), "--program",
                              DYNAMIX_NODE_PROGRAM, "--out", path});
    EXPECT_THAT(made.output, ContainsRegex("here: [0-9]+ cores, .* samples/s of ")) << made.output;
  }
};

TEST_F(LaunchIntoShells, ThatGreet) {
  train_through("/bin/bash", ".bashrc", "echo hi\n");
}
TEST_F(LaunchIntoShells, ThatSetTheTitle) {
  train_through("/bin/bash", ".bashrc", "printf '\\033]0;ada\\007'\n");
}
TEST_F(LaunchIntoShells, ThatCount) {
  train_through("/bin/bash", ".bashrc", "echo 3 users are logged in\n");
}
TEST_F(LaunchIntoShells, ThatAreStrict) {
  train_through("/bin/bash", ".bashrc", "set -eu\n");
}
TEST_F(LaunchIntoShells, ThatAreFish) {
  train_through("/usr/bin/fish", ".config/fish/config.fish", "echo hi\n");
}
TEST_F(LaunchIntoShells, ThatAreTcsh) {
  train_through("/usr/bin/tcsh", ".tcshrc", "echo hi\n");
}

TEST_F(LaunchIntoShells, SaysThatAStartUpFileReadsTheInput) {
  write_home(".bashrc", "read answer\n");
  start_machines({.cluster = patient_cluster}, "/bin/bash");
  const auto ended = launch().wait();
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.output, HasSubstr("a start-up file of the shell here reads standard input"));
}

TEST_F(LaunchIntoShells, SaysThatAStartUpFileWaits) {
  write_home(".bashrc", "cat >/dev/null\n");
  start_machines({.cluster = patient_cluster}, "/bin/bash");
  auto launched = launch();
  EXPECT_TRUE(wait_until([&] { return launched.says("w0 has started nothing for 15 s"); })) << launched.said();
  launched.signal(SIGINT);
  ASSERT_TRUE(wait_until([&] { return launched.says("a second Ctrl-C ends at once"); })) << launched.said();
  std::this_thread::sleep_for(std::chrono::milliseconds(600)); // signals within half a second are one
  launched.signal(SIGINT);
  EXPECT_EQ(launched.wait().code, 1) << launched.said();
}

TEST_F(LaunchIntoShells, WaitForAStartUpFileNoLongerThanAMinute) {
  write_home(".bashrc", "cat >/dev/null\n");
  start_machines({.cluster = patient_cluster}, "/bin/bash");
  auto launched = launch();
  EXPECT_EQ(launched.wait().code, 1) << launched.said();
  EXPECT_THAT(launched.said(), HasSubstr("its shell did not come to the command"));
}

TEST_F(LaunchIntoShells, SaysThatAStartUpFileEndsTheShell) {
  for (const std::string code : {"0", "3"}) {
    if (code == "0")
      write_home(".bashrc", "exit 0\n");
    else
      write_home(".bashrc", "exit 3\n");
    if (code == "0")
      start_machines({.cluster = patient_cluster}, "/bin/bash");
    const auto ended = launch({"--out", in("run" + code)}).wait();
    EXPECT_EQ(ended.code, 1) << code;
    EXPECT_THAT(ended.output, HasSubstr("died (exit code " + code + "; its shell did not come to the command"));
  }
}

/// w1 alone cannot end the training of both: it ended at a time-out, and the launcher said that all was well.
TEST_F(LaunchIntoShells, KnowsWhoHasLeft) {
  write_home(".bashrc", "echo hi\n");
  start_machines({.epochs = 6, .cluster = patient_cluster}, "/bin/bash");
  auto launched = launch();
  ASSERT_TRUE(wait_for_windows(2)) << launched.said();
  kill(process_of("w1"), SIGTERM);
  EXPECT_EQ(launched.wait().code, 0) << launched.said();
  EXPECT_THAT(launched.said(), HasSubstr("w1 has left"));
  EXPECT_EQ(farewell_of("w0").epochs, 6U);
}

TEST_F(Launch, TakesTrainingThatSomebodyElseStoppedForNoSuccess) {
  start_machines({.epochs = 1000, .cluster = patient_cluster});
  auto launched = launch();
  ASSERT_TRUE(wait_for_windows(2)) << launched.said();
  for (const auto* host : {"w0", "w1"})
    kill(process_of(host), SIGTERM);
  EXPECT_EQ(launched.wait().code, 1) << launched.said();
  EXPECT_THAT(launched.said(), AllOf(HasSubstr("training was ended before its end"), HasSubstr("--resume")));
}

TEST_F(Launch, TakesDirectoriesOfAnyName) {
  start_machines({.cluster = patient_cluster});
  const auto there = in("l\xc3\xa4ufe of 'Ada' \\ ~ $HOME!");
  const auto ended = launch({"--directory", there, "--out", in("r\xc3\xbcn $x")}).wait();
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_TRUE(std::filesystem::exists(there + "/hub/windows.jsonl"));
}

TEST_F(Launch, SaysWhichHostCannotBeReached) {
  start_machines({});
  std::filesystem::remove(in("authorized"));
  const auto ended = launch().wait();
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.output,
              AllOf(HasSubstr("died (exit code 255) before training began"), HasSubstr("Permission denied")));
}

} // namespace
} // namespace dynamix::cluster_test
