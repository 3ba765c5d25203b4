/// Against real processes, shell scripts, and the proxy.

#include "faults/injector.hpp"
#include "faults/process_facts.hpp"
#include "storage/atomic_file.hpp"
#include "tests/temporary_directory.hpp"
#include "tests/unit/ledger/rows.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace dynamix::faults {
namespace {

using ::testing::HasSubstr;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Shell scripts in the place of hosts.
class scripts final : public victims {
public:
  ~scripts() override {
    for (const auto& [host, process] : processes_) {
      ::kill(process, SIGKILL);
      ::waitpid(process, nullptr, 0);
    }
  }
  void start(const std::string& host, const std::string& script,
             const std::vector<std::pair<std::string, std::string>>& environment = {}) {
    const pid_t process = ::fork();
    if (process == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (const auto& [name, value] : environment)
        ::setenv(name.c_str(), value.c_str(), 1);
      std::signal(SIGXFSZ, SIG_IGN);
      ::execl("/bin/sh", "sh", "-c", script.c_str(), nullptr);
      ::_exit(127);
    }
    processes_[host] = process;
  }
  /// Whether it has ended, and how.
  bool reap(const std::string& host, int& status) {
    if (::waitpid(processes_.at(host), &status, WNOHANG) != processes_.at(host))
      return false;
    processes_.erase(host);
    return true;
  }
  pid_t id(const std::string& host) override { return processes_.contains(host) ? processes_.at(host) : 0; }
  void signal(const std::string& host, int number) override { ::kill(processes_.at(host), number); }
  void start(const std::string& host) override { start(host, "sleep 60"); }
  void hold_down(const std::string& host, bool held) override { held_[host] = held; }
  bool held(const std::string& host) { return held_[host]; }

private:
  std::map<std::string, pid_t> processes_;
  std::map<std::string, bool> held_;
};

class AnInjector : public ::testing::Test {
protected:
  AnInjector() {
    for (const char* below : {"/workers", "/checkpoints"})
      std::filesystem::create_directories(run_ + below);
  }

  planned_fault fault(fault_kind kind, const std::string& host, double duration = 0) {
    planned_fault made{.number = ++number_, .kind = kind, .hosts = {host}};
    made.rule.duration_seconds = duration;
    return made;
  }
  /// Looks every few milliseconds until it has come true; the tests' patience is a minute.
  bool look_until(const std::function<bool()>& come_true) {
    const double deadline = seconds_now() + 60;
    while (!come_true()) {
      if (seconds_now() > deadline)
        return false;
      injector_.look(seconds_now());
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return true;
  }
  /// Waits for the host's end and tells the injector.
  bool ended(const std::string& host) {
    int status = 0;
    if (!look_until([&] { return hosts_.reap(host, status); }))
      return false;
    left_ = injector_.process_ended(host, WIFSIGNALED(status),
                                    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return true;
  }
  fault_record settled(const planned_fault& of) {
    std::vector<fault_record> records = {{.plan = of}};
    injector_.settle(records);
    return records.front();
  }
  void write(const std::string& path) { ASSERT_EQ(storage::write_file_atomically(run_ + path, std::string("x")), ""); }

  cluster::cluster_file file_ = ledger::testing::small_cluster(3);
  const temporary_directory directory_;
  const std::string& run_ = directory_.path();
  scripts hosts_;
  proxy proxy_;
  injector injector_{file_, hosts_, proxy_, {{"w0", "hub"}, {"w1", "hub"}}, run_};
  std::uint32_t number_ = 0;
  bool left_ = false;
};

TEST_F(AnInjector, KillsAndCrashes) {
  for (const auto kind : {fault_kind::kill, fault_kind::crash}) {
    hosts_.start("w1", "exec sleep 60");
    const auto made = fault(kind, "w1");
    injector_.begin(made);
    injector_.end(made);
    ASSERT_TRUE(ended("w1"));
    EXPECT_TRUE(settled(made).bit);
    EXPECT_THAT(settled(made).evidence, HasSubstr(kind == fault_kind::kill ? "signal 9" : "signal 11"));
    EXPECT_FALSE(hosts_.held("w1"));
  }
}

TEST_F(AnInjector, SaysWhenThereWasNobodyToHit) {
  const auto made = fault(fault_kind::kill, "w1");
  injector_.begin(made);
  EXPECT_FALSE(settled(made).bit);
  EXPECT_EQ(settled(made).evidence, "w1 had no process");
}

TEST_F(AnInjector, KeepsTheDeadDownForTheDuration) {
  hosts_.start("w1", "exec sleep 60");
  const auto made = fault(fault_kind::kill, "w1", 5);
  injector_.begin(made);
  ASSERT_TRUE(ended("w1"));
  EXPECT_TRUE(hosts_.held("w1"));
  injector_.end(made);
  EXPECT_FALSE(hosts_.held("w1"));
}

TEST_F(AnInjector, AsksAProcessToEndItselfAtOnce) {
  hosts_.start("w1", "trap 'exit 1' QUIT; touch " + run_ + "/ready; while :; do sleep 0.02; done");
  ASSERT_TRUE(look_until([&] { return std::filesystem::exists(run_ + "/ready"); }));
  const auto made = fault(fault_kind::exit, "w1");
  injector_.begin(made);
  ASSERT_TRUE(ended("w1"));
  EXPECT_TRUE(settled(made).bit);
  EXPECT_THAT(settled(made).evidence, HasSubstr("exit code 1"));
}

TEST_F(AnInjector, AsksAHostToLeaveAndLetsItComeAgain) {
  hosts_.start("w1", "trap 'exit 0' TERM; touch " + run_ + "/ready; while :; do sleep 0.02; done");
  ASSERT_TRUE(look_until([&] { return std::filesystem::exists(run_ + "/ready"); }));
  const auto made = fault(fault_kind::leave, "w1", 5);
  injector_.begin(made);
  ASSERT_TRUE(ended("w1"));
  EXPECT_TRUE(settled(made).bit);
  EXPECT_TRUE(left_) << "its launcher is to start it again";
  EXPECT_TRUE(hosts_.held("w1"));
  injector_.end(made);
  EXPECT_FALSE(hosts_.held("w1"));
}

TEST_F(AnInjector, StartsAHostThatJoins) {
  const auto made = fault(fault_kind::join, "guest");
  injector_.begin(made);
  injector_.end(made);
  injector_.look(seconds_now());
  EXPECT_TRUE(settled(made).bit);
  EXPECT_THAT(settled(made).evidence, HasSubstr("was started"));
  const auto again = fault(fault_kind::join, "guest");
  injector_.begin(again);
  injector_.look(seconds_now());
  EXPECT_FALSE(settled(again).bit);
  EXPECT_EQ(settled(again).evidence, "guest had a process already");
}

TEST_F(AnInjector, WipesWhatAWorkerHasStored) {
  write("/workers/w1.json");
  write("/workers/w0.json");
  write("/checkpoints/checkpoint-000000000012.safetensors");
  write("/checkpoints/policy.dynamix");
  hosts_.start("w1", "exec sleep 60");
  const auto made = fault(fault_kind::wipe, "w1");
  injector_.begin(made);
  injector_.end(made);
  EXPECT_TRUE(hosts_.held("w1")) << "not before it is wiped";
  ASSERT_TRUE(ended("w1"));
  EXPECT_FALSE(hosts_.held("w1"));
  EXPECT_FALSE(std::filesystem::exists(run_ + "/workers/w1.json"));
  EXPECT_TRUE(std::filesystem::exists(run_ + "/workers/w0.json"));
  EXPECT_FALSE(std::filesystem::exists(run_ + "/checkpoints/checkpoint-000000000012.safetensors"));
  EXPECT_TRUE(std::filesystem::exists(run_ + "/checkpoints/policy.dynamix")) << "that is the arbitrator's";
  EXPECT_THAT(settled(made).evidence, HasSubstr("2 files wiped"));
}

TEST_F(AnInjector, StopsAProcessAndLetsItGoOn) {
  hosts_.start("w1", "while :; do sleep 0.02; done");
  const auto made = fault(fault_kind::hang, "w1", 1);
  injector_.begin(made);
  ASSERT_TRUE(look_until([&] { return settled(made).bit; }));
  EXPECT_EQ(state_of(hosts_.id("w1")), 'T');
  injector_.end(made);
  EXPECT_TRUE(look_until([&] { return state_of(hosts_.id("w1")) != 'T'; }));
}

TEST_F(AnInjector, SlowsAProcessByStoppingItNowAndThen) {
  hosts_.start("w1", "while :; do :; done");
  auto made = fault(fault_kind::slow, "w1", 1);
  made.rule.factor = 4;
  injector_.begin(made);
  const double begin = seconds_now();
  ASSERT_TRUE(look_until([&] { return seconds_now() > begin + 1 && settled(made).bit; }));
  injector_.end(made);
  EXPECT_TRUE(look_until([&] { return state_of(hosts_.id("w1")) != 'T'; }));
  EXPECT_THAT(settled(made).evidence, HasSubstr("was seen stopped, "));
}

TEST_F(AnInjector, FillsTheDiskForOneProcess) {
  const auto lines = [this] {
    std::ifstream file(run_ + "/log");
    return std::count(std::istreambuf_iterator<char>(file), {}, '\n');
  };
  hosts_.start("w1", "exec >>" + run_ + "/log; while :; do echo line 2>/dev/null; sleep 0.02; done");
  ASSERT_TRUE(look_until([&] { return lines() > 2; }));
  const auto made = fault(fault_kind::disk_full, "w1", 1);
  injector_.begin(made);
  const auto before = lines();
  const double begin = seconds_now();
  const auto writes = write_calls_of(hosts_.id("w1"));
  ASSERT_TRUE(look_until([&] { return seconds_now() > begin + 0.2 && write_calls_of(hosts_.id("w1")) > writes + 3; }));
  EXPECT_LE(lines(), before + 1);
  injector_.end(made);
  EXPECT_TRUE(look_until([&] { return lines() > before + 2; })) << "it writes again";
}

TEST_F(AnInjector, MovesTheWallClockOfOneProcess) {
  const auto clock = wall_clock_path(run_, "w1");
  ASSERT_TRUE(wall_clock(clock).works());
  hosts_.start("w1", "while :; do date +%s > " + run_ + "/new; mv " + run_ + "/new " + run_ + "/date; sleep 0.02; done",
               {{"LD_PRELOAD", DYNAMIX_CLOCK_SHIM}, {"DYNAMIX_CLOCK_FILE", clock}});
  const auto ahead = [this] {
    long said = 0;
    std::ifstream(run_ + "/date") >> said;
    return said - static_cast<long>(std::time(nullptr));
  };
  ASSERT_TRUE(look_until([&] { return std::abs(ahead()) < 100; }));
  auto made = fault(fault_kind::clock_jump, "w1", 1);
  made.rule.jump_seconds = 5000;
  injector_.begin(made);
  EXPECT_TRUE(look_until([&] { return std::abs(ahead() - 5000) < 100; }));
  injector_.end(made);
  EXPECT_TRUE(look_until([&] { return std::abs(ahead()) < 100; }));
  EXPECT_TRUE(settled(made).bit) << settled(made).evidence;
}

TEST_F(AnInjector, BreaksTheLinksOfItsHostAlone) {
  ASSERT_NE(proxy_.add_link("w0>hub", "127.0.0.1", 1), 0);
  const auto port = proxy_.add_link("w1>hub", "127.0.0.1", 1);
  const auto made = fault(fault_kind::partition, "w1", 1);
  injector_.begin(made);
  EXPECT_FALSE(settled(made).bit) << "nothing has passed yet";
  // A connection has to wait: that is an effect.
  std::jthread caller([port] {
    std::string command = "exec 3<>/dev/tcp/127.0.0.1/" + std::to_string(port) + "; sleep 0.2";
    [[maybe_unused]] const int status = std::system(("bash -c '" + command + "'").c_str());
  });
  EXPECT_TRUE(look_until([&] { return settled(made).bit; }));
  EXPECT_EQ(proxy_.counters("w0>hub").touched(), 0U);
  EXPECT_THAT(settled(made).evidence, HasSubstr("w1>hub"));
  injector_.end(made);
}

TEST_F(AnInjector, SaysWhenAHostHasNoConnection) {
  const auto made = fault(fault_kind::reset, "w2");
  injector_.begin(made);
  EXPECT_FALSE(settled(made).bit);
  EXPECT_THAT(settled(made).evidence, HasSubstr("no control connection"));
}

} // namespace
} // namespace dynamix::faults
