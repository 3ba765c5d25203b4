/// Every way in which people and systems end a command, at every moment: its status, no process, no key, and whatever
/// was trained can go on. docs/launching.md has the table; DYNAMIX_ENDS_TIMES repeats each cell.

#include "messages/leave.hpp"
#include "storage/atomic_file.hpp"
#include "tests/cluster/sshd.hpp"
#include "tests/cluster/trial.hpp"
#include "trainer/checkpoint.hpp"

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <optional>
#include <poll.h>
#include <pty.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <tuple>
#include <unistd.h>

namespace dynamix::cluster_test {
namespace {

using ::testing::HasSubstr;

enum class moment { starting, training, evaluating, saving };
enum class way { interrupt, terminate, hang_up, kill, timeout, closed_terminal, lost_ssh };

/// Nothing: the terminal's other end goes.
std::optional<int> signal_of(way how) {
  switch (how) {
  case way::interrupt:
  case way::timeout:
    return SIGINT;
  case way::terminate:
    return SIGTERM;
  case way::hang_up:
    return SIGHUP;
  case way::kill:
    return SIGKILL;
  case way::closed_terminal:
  case way::lost_ssh:
    return std::nullopt;
  }
  return std::nullopt;
}

/// A command in a session of its own, at a terminal whose other end is here. `below_a_shell`: as sshd has it, whose
/// shell ends first.
class at_terminal {
public:
  at_terminal(std::vector<std::string> arguments, bool below_a_shell, const std::string& note) {
    arguments.insert(arguments.begin(), DYNAMIX_NODE_PROGRAM);
    if (below_a_shell) {
      prctl(PR_SET_CHILD_SUBREAPER, 1); // or its status would be lost with the shell
      std::filesystem::remove(note);
      arguments.insert(arguments.begin(),
                       {"/bin/sh", "-c", R"("$@" & echo $! >"$0.new"; mv "$0.new" "$0"; wait)", note});
    }
    const auto pointers = node::pointers_to(arguments);
    session_ = forkpty(&terminal_, nullptr, nullptr, nullptr);
    if (session_ == 0) {
      setenv("OMP_NUM_THREADS", "1", 1);
      execv(pointers.front(), pointers.data());
      _exit(127);
    }
    reader_ = std::jthread([this](const std::stop_token& stop) { read_terminal(stop); });
    id_ = session_;
    if (below_a_shell && wait_until([&] { return std::filesystem::exists(note); })) {
      const auto text = contents_of(note);
      std::from_chars(text.data(), text.data() + text.size(), id_);
    }
  }
  at_terminal(const at_terminal&) = delete;
  at_terminal& operator=(const at_terminal&) = delete;
  ~at_terminal() {
    if (!ended_) {
      kill(id_, SIGKILL);
      waitpid(id_, nullptr, 0);
    }
    close_terminal();
  }

  void end(way how) {
    const auto number = signal_of(how);
    if (!number)
      return close_terminal();
    kill(id_, *number);
    if (how == way::timeout) // sends its child one, and then the child's group
      kill(-session_, *number);
  }
  /// 128 + n for signal n; -1: it does not end.
  int wait() {
    int status = 0;
    if (!wait_until([&] { return ended_ || (ended_ = waitpid(id_, &status, WNOHANG) == id_); }))
      return -1;
    if (session_ != id_)
      waitpid(session_, nullptr, 0);
    close_terminal();
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  /// Once it has ended.
  const std::string& said() const { return said_; }

private:
  void read_terminal(const std::stop_token& stop) { // or it would wait for somebody who reads
    constexpr int look_ms = 20;
    char text[4096];
    while (true) {
      pollfd ready{.fd = terminal_, .events = POLLIN, .revents = 0};
      const bool any = poll(&ready, 1, look_ms) > 0;
      const ssize_t size = any ? read(terminal_, text, sizeof text) : 0;
      if (size > 0)
        said_.append(text, static_cast<std::size_t>(size));
      else if (any || stop.stop_requested())
        return;
    }
  }
  void close_terminal() {
    if (reader_.joinable()) {
      reader_.request_stop();
      reader_.join();
    }
    if (terminal_ >= 0)
      close(std::exchange(terminal_, -1));
  }

  int terminal_ = -1;
  pid_t session_ = -1;
  pid_t id_ = -1;
  bool ended_ = false;
  std::string said_;
  std::jthread reader_;
};

using cell = std::tuple<way, moment>;

class Ends : public trial, public ::testing::WithParamInterface<cell> {
protected:
  way how() const { return std::get<way>(GetParam()); }
  moment when() const { return std::get<moment>(GetParam()); }
  /// Training has begun.
  bool trained() const { return when() != moment::starting; }
  /// What it said last was read.
  bool heard() const { return signal_of(how()) && how() != way::kill; }
  std::string in(const std::string& name) const { return directory_.path() + "/" + name; }

  /// `epochs`: what a whole run is given. `slowdown`: of one that must not have ended before its end.
  void write_cluster(double epochs, double slowdown = 1) {
    write_file({.slowdowns = {slowdown, slowdown},
                .epochs = epochs,
                .training = when() == moment::evaluating ? "evaluate_every_epochs = 0.01\n"
                            : when() == moment::saving   ? "checkpoint_every_epochs = 0.01\n"
                                                         : "",
                .cluster = patient_cluster});
  }
  at_terminal begin(std::vector<std::string> arguments) const {
    return {std::move(arguments), how() == way::lost_ssh, in("process")};
  }

  /// Processes of this test: by a path of theirs, or where they work.
  std::vector<std::string> left() const {
    std::vector<std::string> found;
    std::error_code error;
    for (std::filesystem::directory_iterator entry("/proc", error), end; !error && entry != end;
         entry.increment(error)) {
      std::error_code gone;
      const auto line = contents_of(entry->path().string() + "/cmdline");
      const auto place = std::filesystem::read_symlink(entry->path() / "cwd", gone).string();
      if (entry->path().filename() != std::to_string(getpid()) && line.find("sshd") == std::string::npos &&
          (line.find(directory_.path()) != std::string::npos || place.starts_with(directory_.path())))
        found.push_back(entry->path().filename().string() + " " + line);
    }
    return found;
  }
  std::vector<std::string> keys_below(const std::string& directory) const {
    std::vector<std::string> found;
    std::error_code gone;
    for (std::filesystem::recursive_directory_iterator each(directory, gone), end; !gone && each != end;
         each.increment(gone))
      if (each->path().filename() == "keys" || each->path().extension() == ".key")
        found.push_back(each->path().string());
    return found;
  }
  void expect_nothing_left() const {
    EXPECT_TRUE(wait_until([&] { return left().empty(); })) << ::testing::PrintToString(left());
    EXPECT_TRUE(wait_until([&] { return keys_below(directory_.path()).empty(); }))
        << ::testing::PrintToString(keys_below(directory_.path()));
  }

  /// The first of that name below the test's directory; empty: there is none yet.
  std::string find(const std::string& name) const {
    std::error_code gone; // files come and go
    for (std::filesystem::recursive_directory_iterator each(directory_.path(), gone), end; !gone && each != end;
         each.increment(gone))
      if (each->path().filename() == name)
        return each->path().string();
    return "";
  }
  /// Behind each evaluation comes one step, which takes less time than the evaluation behind it: further on between
  /// two of them, one is under way.
  bool wait_for_evaluation() const {
    using clock = std::chrono::steady_clock;
    const auto count = [&] {
      const auto log = contents_of(find("w0.log"));
      std::size_t found = 0;
      for (auto at = log.find(" evaluated "); at != std::string::npos; at = log.find(" evaluated ", at + 1))
        ++found;
      return found;
    };
    if (!wait_until([&] { return count() >= 1; }))
      return false;
    clock::time_point before;
    clock::time_point last;
    for (const int round : {0, 1}) {
      const auto seen = count();
      if (!wait_until([&] { return count() > seen; }))
        return false;
      (round == 0 ? before : last) = clock::now();
    }
    constexpr double well_into_the_next = 0.6;
    std::this_thread::sleep_for(well_into_the_next * (last - before));
    return true;
  }
  /// Where there is one; empty: nowhere.
  std::string folder_of_checkpoints() const {
    std::error_code gone;
    for (std::filesystem::recursive_directory_iterator each(directory_.path(), gone), end; !gone && each != end;
         each.increment(gone))
      if (each->path().extension() == ".safetensors")
        return each->path().parent_path().string();
    return "";
  }
  /// Until a file is being written beside one that is whole: it is made under another name, and moved to its own.
  bool wait_for_writing() const {
    if (!wait_until([&] { return !folder_of_checkpoints().empty(); }))
      return false;
    const int watch = inotify_init1(IN_CLOEXEC);
    pollfd made{.fd = watch, .events = POLLIN, .revents = 0};
    const bool seen = inotify_add_watch(watch, folder_of_checkpoints().c_str(), IN_CREATE) >= 0 &&
                      poll(&made, 1, static_cast<int>(std::chrono::milliseconds(patience).count())) == 1;
    close(watch);
    return seen;
  }
  /// The moment that the cell is of; `started`, `training`: whether that one has come.
  bool reached(const std::function<bool()>& started, const std::function<bool()>& training) const {
    switch (when()) {
    case moment::starting:
      return wait_until(started);
    case moment::training:
      return wait_until(training);
    case moment::evaluating:
      return wait_for_evaluation();
    case moment::saving:
      return wait_for_writing();
    }
    return false;
  }
  /// For a moment that does not come.
  std::string last_words() const { return find("w0.log") + "\n" + contents_of(find("w0.log")); }
  bool reached(const std::string& started) const {
    return reached([&] { return std::filesystem::exists(started); }, [&] { return windows().size() >= 2; });
  }
  /// Of a command that was to do a whole run.
  void expect_unfinished(int code, const at_terminal& ended) const {
    EXPECT_EQ(code, how() == way::kill ? 128 + SIGKILL : 1) << ended.said();
    expect_nothing_left();
  }
  void expect_goes_on(const std::vector<std::string>& command) const {
    const auto newest = trainer::newest_checkpoint(run().checkpoints());
    if (trained()) {
      EXPECT_NE(newest.path, "") << contents_of(run().log("w0"));
    }
    const auto resumed = end_of(command);
    if (newest.path.empty()) {
      EXPECT_THAT(resumed.output, HasSubstr("holds no checkpoint to resume from"));
    } else {
      EXPECT_EQ(resumed.code, 0) << resumed.output;
    }
    expect_nothing_left();
  }

  template <class Body>
  void repeat(Body body) {
    const auto* given = std::getenv("DYNAMIX_ENDS_TIMES");
    const int times = given != nullptr ? std::atoi(given) : 1;
    for (int i = 0; i < times && !HasFailure(); ++i) {
      SCOPED_TRACE(i);
      for (const auto* name : {"run", "there"})
        std::filesystem::remove_all(in(name));
      body();
    }
  }
};

class EndsOfLocal : public Ends {};
TEST_P(EndsOfLocal, LeaveARunThatGoesOn) {
  repeat([&] {
    write_cluster(100);
    auto local = begin({"local", "--cluster", file(), "--out", run().path()});
    ASSERT_TRUE(reached(run().log("w0"))) << last_words();
    local.end(how());
    const int code = local.wait();
    expect_unfinished(code, local);
    if (heard()) {
      EXPECT_THAT(local.said(), HasSubstr("stopped before the end"));
      EXPECT_THAT(local.said(), HasSubstr("run directory: "));
      EXPECT_TRUE(std::filesystem::exists(run().summary()));
    }
    expect_goes_on({"local", "--resume", run().path(), "--epochs", "0.4"});
  });
}

/// Hosts that are reached by ssh, in directories of their own.
class EndsOfLaunch : public Ends {};
TEST_P(EndsOfLaunch, LeaveARunThatGoesOn) {
  if (!std::filesystem::exists(sshd::program))
    GTEST_SKIP() << sshd::program << " is not installed";
  sshd machines;
  write_cluster(1);
  machines.start(directory_.path());
  repeat([&] {
    write_cluster(100);
    const std::vector<std::string> there = {"--ssh",       machines.ssh(), "--program", DYNAMIX_NODE_PROGRAM,
                                            "--directory", in("there")};
    const auto with = [&](std::vector<std::string> arguments) {
      arguments.insert(arguments.end(), there.begin(), there.end());
      return arguments;
    };
    auto launched = begin(with({"launch", "--cluster", file(), "--out", run().path()}));
    ASSERT_TRUE(reached(in("there/w0/cluster.toml"))) << last_words();
    launched.end(how());
    const int code = launched.wait();
    expect_unfinished(code, launched);
    if (heard()) {
      EXPECT_THAT(launched.said(), HasSubstr("stopped before the end"));
    }
    const auto resumed = end_of(with({"launch", "--resume", run().path(), "--epochs", "0.4"}));
    EXPECT_EQ(resumed.code, 0) << resumed.output;
    expect_nothing_left();
  });
}

/// One host of three that were started by themselves.
class EndsOfRun : public Ends {};
TEST_P(EndsOfRun, LeaveAHostThatComesBack) {
  const bool stops_all = signal_of(how()) == SIGINT && trained();
  repeat([&] {
    write_cluster(0.5, 5);
    std::map<std::string, program> others;
    for (const auto* host : {"hub", "w1"})
      others.emplace(host, start_host(host));
    auto host = begin({"run", "--cluster", file(), "--name", "w0", "--out", run().path()});
    ASSERT_TRUE(reached(run().log("w0"))) << last_words();
    host.end(how());
    const int code = host.wait();
    const int expected = how() == way::kill ? 128 + SIGKILL : signal_of(how()) == SIGINT ? 130 : 0;
    EXPECT_EQ(code, expected) << host.said() << contents_of(run().log("w0"));
    if (stops_all)
      for (const auto* other : {"hub", "w1"}) {
        EXPECT_EQ(others.at(other).wait().code, 3) << "nobody asked it\n" << others.at(other).said();
        others.erase(other);
        others.emplace(other, start_host(other, "--resume"));
      }
    others.emplace("w0", start_host("w0", "--resume"));
    for (auto& [name, other] : others)
      EXPECT_EQ(other.wait().code, 0) << name << ": " << other.said();
    EXPECT_TRUE(messages::tells_completion(farewell_of("w1"))); // who comes back may find that training is over
    expect_nothing_left();
  });
}

/// The agents', and the command's; what it trains is its own.
class EndsOfExec : public Ends {};
TEST_P(EndsOfExec, LeaveNeitherAgentsNorTheCommand) {
  repeat([&] {
    const auto mark = in("started");
    std::filesystem::remove(mark);
    auto commanded = begin({"exec", "--workers", "2", "--out", run().path(), "--", "/bin/sh", "-c",
                            "touch \"$0\"; while [ -e \"$0\" ]; do sleep 0.1; done", mark});
    ASSERT_TRUE(wait_until([&] { return std::filesystem::exists(trained() ? mark : run().cluster_file()); }));
    commanded.end(how());
    EXPECT_EQ(commanded.wait(), 128 + signal_of(how()).value_or(SIGHUP)) << commanded.said();
    if (how() == way::kill) // of the command only those that have joined the agents hear, and end in order
      std::filesystem::remove(mark);
    expect_nothing_left();
  });
}

class EndsOfFaults : public Ends {};
TEST_P(EndsOfFaults, LeaveAVerdictAndARunThatGoesOn) {
  repeat([&] {
    write_cluster(100);
    ASSERT_EQ(storage::write_file_atomically(in("plan.toml"),
                                             "[plan]\ncluster = \"cluster.toml\"\ncompare = false\n"
                                             "[[fault]]\nkind = \"kill\"\ntarget = \"w1\"\nat_window = 100000\n"),
              "");
    auto broken = begin({"faults", "--plan", in("plan.toml"), "--out", run().path()});
    ASSERT_TRUE(reached(run().log("w0"))) << last_words();
    broken.end(how());
    const int code = broken.wait();
    expect_unfinished(code, broken);
    if (heard()) {
      EXPECT_THAT(broken.said(), HasSubstr("verdict: INTERRUPTED"));
    }
    expect_goes_on({"local", "--resume", run().path(), "--epochs", "0.4"});
  });
}

class EndsOfCompare : public Ends {};
TEST_P(EndsOfCompare, LeaveAComparisonThatGoesOn) {
  repeat([&] {
    write_cluster(when() == moment::saving ? 0.5 : 0.1, 2);
    replace_in_file("[training]\n", "[training]\ntarget_accuracy = 0.01\n"); // which each run reaches at its end
    const std::vector<std::string> command = {"compare",        "--cluster", file(),      "--policies",
                                              "static,goodput", "--out",     run().path()};
    auto compared = begin(command);
    ASSERT_TRUE(reached([&] { return !find("w0.log").empty(); }, [&] { return !find("windows.jsonl").empty(); }));
    compared.end(how());
    const int code = compared.wait();
    expect_unfinished(code, compared);
    if (heard()) {
      EXPECT_THAT(compared.said(), HasSubstr("Go on with:"));
    }
    const auto resumed = end_of(command);
    EXPECT_EQ(resumed.code, 0) << resumed.output;
    expect_nothing_left();
  });
}

std::string name_of(const ::testing::TestParamInfo<cell>& given) {
  constexpr const char* ways[] = {"Interrupted", "Terminated",     "HungUp", "Killed",
                                  "TimedOut",    "TerminalClosed", "SshLost"};
  constexpr const char* moments[] = {"Starting", "Training", "Evaluating", "Saving"};
  return fmt::format("{}{}", ways[static_cast<std::size_t>(std::get<way>(given.param))],
                     moments[static_cast<std::size_t>(std::get<moment>(given.param))]);
}

const auto all_ways = ::testing::Values(way::interrupt, way::terminate, way::hang_up, way::kill, way::timeout,
                                        way::closed_terminal, way::lost_ssh);
const auto at_any_moment = ::testing::Combine(
    all_ways, ::testing::Values(moment::starting, moment::training, moment::evaluating, moment::saving));
/// Its target is reached by the first evaluation, which ends the run: a later one would not be of training.
const auto unless_evaluating =
    ::testing::Combine(all_ways, ::testing::Values(moment::starting, moment::training, moment::saving));
/// What its command does then is the command's own.
const auto at_two_moments = ::testing::Combine(all_ways, ::testing::Values(moment::starting, moment::training));

INSTANTIATE_TEST_SUITE_P(At, EndsOfLocal, at_any_moment, name_of);
INSTANTIATE_TEST_SUITE_P(At, EndsOfRun, at_any_moment, name_of);
INSTANTIATE_TEST_SUITE_P(At, EndsOfLaunch, at_any_moment, name_of);
INSTANTIATE_TEST_SUITE_P(At, EndsOfExec, at_two_moments, name_of);
INSTANTIATE_TEST_SUITE_P(At, EndsOfFaults, at_any_moment, name_of);
INSTANTIATE_TEST_SUITE_P(At, EndsOfCompare, unless_evaluating, name_of);

} // namespace
} // namespace dynamix::cluster_test
