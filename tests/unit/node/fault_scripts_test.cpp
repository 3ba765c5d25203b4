#include "node/experiments/fault_scripts.hpp"
#include "tests/temporary_directory.hpp"
#include "tests/unit/node/sample_run.hpp"
#include "tests/wait_until.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace dynamix::node {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Two hosts that run, and for each an agent's socket where a test wants it to listen.
class FaultScripts : public ::testing::Test {
protected:
  FaultScripts() {
    for (auto& host : file_.hosts)
      host.roles = {cluster::role::worker};
    EXPECT_EQ(run_.create(), "");
    std::filesystem::create_directories(run_.agents());
    plan_.path = directory_.path() + "/plan.toml";
    hosts_.emplace(file_.hosts, actors::supervision_options{}, [this](const cluster::host& host, bool) {
      return child_options{.program = "/bin/sh", .arguments = {"-c", "exec sleep 600"}, .output = run_.log(host.name)};
    });
    EXPECT_EQ(hosts_->start_all(false), "");
  }
  ~FaultScripts() override {
    hosts_->signal_all(SIGKILL);
    for (const int each : sockets_)
      ::close(each);
  }
  fault_scripts& scripts(const std::string& script, const std::string& check = "") {
    plan_.script = script;
    plan_.check = check;
    return scripts_.emplace(plan_, file_, run_);
  }
  void listen(std::size_t slot) {
    const int made = ::socket(AF_UNIX, SOCK_STREAM, 0);
    // From the directory, since a path of a socket is short.
    const auto before = std::filesystem::current_path();
    std::filesystem::current_path(run_.agents());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    fmt::format_to_n(address.sun_path, sizeof address.sun_path - 1, "{}.sock", slot);
    EXPECT_EQ(::bind(made, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    std::filesystem::current_path(before);
    sockets_.push_back(made);
  }
  std::string said(const std::string& name) const { return text_of_file(directory_.file(name)); }

  temporary_directory directory_;
  cluster::cluster_file file_ = testing::pair_file();
  faults::fault_plan plan_;
  run_directory run_{directory_.path() + "/run"};
  std::optional<host_processes> hosts_;
  std::optional<fault_scripts> scripts_;
  std::vector<int> sockets_;
};

TEST_F(FaultScripts, BeginWhenTheirAgentListensAndAgainWhenTheyHaveDied) {
  auto& those = scripts(R"(sh -c 'echo "$RANK of $WORLD_SIZE" >> ran; exec sleep 600')");
  EXPECT_THAT(those.look(*hosts_, true, false), IsEmpty());
  EXPECT_EQ(those.id("ada"), 0);
  listen(0);
  EXPECT_THAT(those.look(*hosts_, true, false), IsEmpty());
  const auto first = those.id("ada");
  EXPECT_NE(first, 0);
  EXPECT_EQ(those.id("ben"), 0) << "its agent does not listen yet";
  EXPECT_TRUE(wait_until([&] { return said("ran") == "0 of 2\n"; })) << said("ran");

  those.signal("ada", SIGKILL);
  std::vector<host_end> ended;
  EXPECT_TRUE(wait_until([&] {
    const auto now = those.look(*hosts_, true, true);
    ended.insert(ended.end(), now.begin(), now.end());
    return those.id("ada") != 0 && those.id("ada") != first;
  }));
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].host, "ada");
  EXPECT_FALSE(those.cannot_live());
}

TEST_F(FaultScripts, StayDeadWhileTheyAreHeldDownAndDoneWhenTheyHaveEndedWell) {
  auto& those = scripts("true");
  listen(0);
  listen(1);
  those.hold_down("ben", true);
  std::size_t ended = 0;
  EXPECT_TRUE(wait_until([&] { return (ended += those.look(*hosts_, true, true).size()) == 1; }));
  EXPECT_THAT(those.look(*hosts_, true, true), IsEmpty());
  EXPECT_EQ(those.id("ada"), 0) << "it has ended well";
  those.hold_down("ben", false);
  EXPECT_TRUE(wait_until([&] { return (ended += those.look(*hosts_, true, true).size()) == 2; }));
  EXPECT_THAT(those.finish(std::chrono::seconds(1), {}), IsEmpty());
}

TEST_F(FaultScripts, TellOfThoseThatDoNotEndWithTrainingAndOfWhatTheCheckFinds) {
  auto& those = scripts("sh -c 'test $RANK = 0 && exec sleep 600; echo no memory; exit 3'",
                        "sh -c 'echo two samples are missing; exit 4'");
  listen(0);
  listen(1);
  those.look(*hosts_, true, true);
  std::size_t ended = 0;
  EXPECT_TRUE(wait_until([&] { return (ended += those.look(*hosts_, false, true).size()) == 1; }));
  EXPECT_THAT(those.finish(std::chrono::seconds(0), {}),
              ElementsAre("the script of ben ended with exit code 3: no memory",
                          "the script of ada did not end with training",
                          "the plan's check ended with exit code 4: two samples are missing"));
  EXPECT_TRUE(wait_until([&] { return those.id("ada") == 0; }));
}

TEST_F(FaultScripts, LeaveNoProcessBehindThatTheyHaveStarted) {
  auto& those = scripts("sh -c 'sleep 600 & echo $! > id.new; mv id.new id; wait'");
  listen(0);
  those.look(*hosts_, true, true);
  ASSERT_TRUE(wait_until([&] { return !said("id").empty(); }));
  const int id = std::stoi(said("id"));
  EXPECT_THAT(those.finish(std::chrono::seconds(0), {}), ElementsAre("the script of ada did not end with training"));
  const auto lives = [&] {
    const auto state = text_of_file(fmt::format("/proc/{}/stat", id));
    return !state.empty() && state.find(") Z ") == std::string::npos;
  };
  EXPECT_TRUE(wait_until([&] { return !lives(); }));
  if (lives())
    ::kill(id, SIGKILL);
}

} // namespace
} // namespace dynamix::node
