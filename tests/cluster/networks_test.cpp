/// Hosts in network namespaces of their own, whose names, firewalls and wires are as people have them: a sentence names
/// the cause, soon, and where people look. Needs root, iproute2 and nft; skipped elsewhere.

#include "faults/namespaces.hpp"
#include "storage/atomic_file.hpp"
#include "tests/cluster/trial.hpp"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fmt/format.h>
#include <iostream>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

namespace dynamix::cluster_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto nft_program = "/usr/sbin/nft";
/// Four seconds of it are a connect's patience. A minute it was once; a loaded machine adds its own.
constexpr std::chrono::seconds soon{20};

class Networks : public trial {
protected:
  void SetUp() override {
    if (access(nft_program, X_OK) != 0)
      GTEST_SKIP() << nft_program << " is not installed";
    if (const auto reason = network_.create({"hub", "w0", "w1", "w2"}); !reason.empty())
      GTEST_SKIP() << reason;
  }

  /// `name`: what the file has in place of the address of `named`.
  void write_cluster(std::size_t workers, bool keys, const std::string& named = "", const std::string& name = "") {
    write_file({.slowdowns = std::vector<double>(workers, 5), .epochs = 1000});
    std::vector<std::string> hosts = {"hub"};
    for (std::size_t i = 0; i < workers; ++i)
      hosts.push_back(fmt::format("w{}", i));
    for (const auto& host : hosts) {
      const auto line = fmt::format("name = \"{}\"\n", host);
      replace_in_file(line, fmt::format("{}address = \"{}\"\n", line, host == named ? name : network_.address(host)));
    }
    if (keys) {
      const auto made = end_of({"keys", "init", "--cluster", file()});
      ASSERT_EQ(made.code, 0) << made.output;
      replace_in_file("[cluster]\n", "[security]\nkeys = \"keys\"\n[cluster]\n");
    }
    insecure_ = !keys;
  }

  /// Its own machine's names are those of `etc_hosts`, where there are any.
  program start_there(const std::string& host, const std::string& etc_hosts = "") {
    auto words = network_.command(host);
    words.insert(words.end(), {DYNAMIX_NODE_PROGRAM, "run", "--cluster", file(), "--name", host, "--out",
                               run().path() + "-" + host, "--log-to-stderr"});
    if (insecure_)
      words.emplace_back("--insecure");
    if (!etc_hosts.empty()) {
      const auto path = directory_.path() + "/hosts-" + host;
      EXPECT_EQ(storage::write_file_atomically(path, etc_hosts), "");
      words.insert(words.begin(),
                   {"/usr/bin/unshare", "-m", "/bin/sh", "-c", "mount --bind \"$0\" /etc/hosts && exec \"$@\"", path});
    }
    const auto path = words.front();
    words.erase(words.begin());
    return start(words, path);
  }

  /// `nft` in a host's network.
  void filter(const std::string& host, const std::string& commands) {
    const auto path = directory_.path() + "/filter";
    ASSERT_EQ(storage::write_file_atomically(path, commands), "");
    auto words = network_.command(host);
    words.insert(words.end(), {nft_program, "-f", path});
    const auto ip = words.front();
    words.erase(words.begin());
    const auto ended = start(words, ip).wait();
    ASSERT_EQ(ended.code, 0) << ended.output;
  }
  /// Nothing that one of them sends reaches the other, and nobody is told.
  void cut(const std::string& one, const std::string& other) {
    for (const auto& [here, there] : {std::pair(one, other), std::pair(other, one)})
      filter(here, fmt::format("add table inet cut\nadd chain inet cut in {{ type filter hook input priority 0; }}\n"
                               "add rule inet cut in ip saddr {} drop\n",
                               network_.address(there)));
  }
  void heal(const std::string& one, const std::string& other) {
    for (const auto& host : {one, other})
      filter(host, "delete table inet cut\n");
  }

  using time_point = std::chrono::sys_time<std::chrono::milliseconds>;
  static time_point now() {
    return std::chrono::time_point_cast<std::chrono::milliseconds>(std::chrono::system_clock::now());
  }
  /// What a line of a log has in front of it, "2026-11-21T08:00:00.123Z".
  static time_point time_of(const std::string& line) {
    std::tm parts{};
    const char* rest = strptime(line.c_str(), "%Y-%m-%dT%H:%M:%S.", &parts);
    return time_point(std::chrono::seconds(timegm(&parts)) +
                      std::chrono::milliseconds(rest != nullptr ? std::atoi(rest) : 0));
  }
  /// The first line with all the words, not before `since`; empty: there is none.
  static std::string line_of(const program& who, const std::vector<std::string>& words, time_point since = {}) {
    std::istringstream said(who.said());
    for (std::string line; std::getline(said, line);)
      if (std::ranges::all_of(words, [&](const auto& each) { return line.find(each) != std::string::npos; }) &&
          time_of(line) >= since)
        return line;
    return "";
  }
  /// A sentence with these words. Its own time, in milliseconds from `since` on, is printed, and is the test's property
  /// `named`.
  void expect_soon(const std::string& named, const program& who, const std::vector<std::string>& words,
                   time_point since) {
    expect_soon_of({&who}, named, words, since);
  }
  /// Of whoever says it first.
  void expect_soon_of(const std::vector<const program*>& all, const std::string& named,
                      const std::vector<std::string>& words, time_point since) {
    const auto begin = std::chrono::steady_clock::now();
    std::string line;
    while (line.empty() && std::chrono::steady_clock::now() - begin < soon) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      for (const auto* who : all)
        line = line.empty() ? line_of(*who, words, since) : line;
    }
    ASSERT_NE(line, "") << named << "\n" << all.front()->said();
    const auto taken = (time_of(line) - since).count();
    RecordProperty(named, static_cast<int>(taken));
    std::cout << fmt::format("{}: {} ms: {}\n", named, taken, line);
  }
  /// When the arbitrator formed the first generation.
  time_point formed(const program& hub) {
    EXPECT_TRUE(wait_until([&] { return hub.says("generation_formed"); })) << hub.said();
    return time_of(line_of(hub, {"generation_formed"}));
  }

  std::vector<ledger::window> windows_of_hub() const {
    std::string not_yet;
    std::vector<ledger::window> found;
    for (auto& row : ledger::read_file(run().path() + "-hub/windows.jsonl", not_yet))
      if (auto* window = std::get_if<ledger::window>(&row.entry))
        found.push_back(std::move(*window));
    return found;
  }
  bool wait_for_more_windows(std::size_t count) const {
    const auto before = windows_of_hub().size();
    return wait_until([&] { return windows_of_hub().size() >= before + count; });
  }

  faults::namespaces network_;

private:
  bool insecure_ = false;
};

/// Debian's `127.0.1.1 NAME`: the host itself says it, and who calls it says which address answered nothing.
TEST_F(Networks, AHostWhoseNameIsLoopbackOnItsOwnMachineSaysIt) {
  write_cluster(2, false, "w0", "ada.test");
  const auto real = network_.address("w0") + " ada.test\n";
  auto hub = start_there("hub", real);
  auto second = start_there("w1", real);
  const auto begin = now();
  auto first = start_there("w0", "127.0.0.1 localhost\n127.0.1.1 ada.test\n");
  expect_soon("loopback_ms", first, {"listens_on_loopback", "127.0.1.1"}, begin);
}

/// CAF called the first address, whichever the probe had found.
TEST_F(Networks, AHostIsReachedAtTheSecondAddressOfItsName) {
  write_cluster(2, false, "hub", "hub.test");
  auto hub = start_there("hub", network_.address("hub") + " hub.test\n");
  const auto begin = now();
  // Whichever of them the system puts first: at one of two, nobody listens.
  auto first = start_there("w0", network_.address("w1") + " hub.test\n" + network_.address("hub") + " hub.test\n");
  expect_soon("joined_ms", hub, {"joined host=w0 "}, begin);
  auto second = start_there("w1", network_.address("w2") + " hub.test\n" + network_.address("hub") + " hub.test\n");
  expect_soon("second_joined_ms", hub, {"joined host=w1 "}, begin);
}

TEST_F(Networks, AFirewallThatLetsOnePortThroughIsNamedWithThePort) {
  write_cluster(2, false);
  filter("w0", fmt::format("add table inet f\nadd chain inet f in {{ type filter hook input priority 0; }}\n"
                           "add rule inet f in tcp dport != {} ct state new drop\n",
                           port(1)));
  auto hub = start_there("hub");
  auto first = start_there("w0");
  auto second = start_there("w1");
  const auto begin = formed(hub);
  const auto address = fmt::format("rank 0 at {}:", network_.address("w0"));
  expect_soon("caller_ms", second, {address, "is not reached: Connection timed out"}, begin);
  expect_soon("arbitrator_ms", hub, {"w1 could not continue in it: ", address}, begin);
}

class NetworksCut : public Networks, public ::testing::WithParamInterface<bool> {};

TEST_P(NetworksCut, BetweenTwoOfThreeFromTheBeginningIsNamedWithBoth) {
  write_cluster(3, GetParam());
  cut("w0", "w1");
  auto hub = start_there("hub");
  std::vector<program> workers;
  for (const auto* host : {"w0", "w1", "w2"})
    workers.push_back(start_there(host));
  const auto begin = formed(hub);
  expect_soon("caller_ms", workers[1], {GetParam() ? "host \"w0\" at " : "rank 0 at ", "is not reached"}, begin);
  expect_soon("arbitrator_ms", hub, {"host=w1 ", GetParam() ? "host 'w0' at " : "rank 0 at "}, begin);
  heal("w0", "w1");
  EXPECT_TRUE(wait_for_more_windows(2)) << hub.said();
}

TEST_P(NetworksCut, BetweenTwoOfThreeInTrainingIsNamedWithBoth) {
  write_cluster(3, GetParam());
  auto hub = start_there("hub");
  std::vector<program> workers;
  for (const auto* host : {"w0", "w1", "w2"})
    workers.push_back(start_there(host));
  ASSERT_TRUE(wait_for_more_windows(2)) << hub.said();
  cut("w0", "w1");
  const auto begin = now();
  // The arbitrator names one of those that came out, of whom the third only saw a connection closed.
  expect_soon_of({&workers[0], &workers[1]}, "wire_ms", {GetParam() ? "link to w" : "connection to rank ", " broke: "},
                 begin);
  expect_soon("pair_ms", hub, {"host=w1 ", GetParam() ? "host 'w0' at " : "rank 0 at "}, begin);
  heal("w0", "w1");
  EXPECT_TRUE(wait_for_more_windows(2)) << hub.said();
}

INSTANTIATE_TEST_SUITE_P(Of, NetworksCut, ::testing::Bool(),
                         [](const auto& given) { return given.param ? "HostsWithKeys" : "HostsInTheClear"; });

} // namespace
} // namespace dynamix::cluster_test
