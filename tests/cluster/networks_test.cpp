/// Hosts in network namespaces of their own, whose names, firewalls and wires are as people have them: a sentence names
/// the cause, soon, and where people look. Needs root, iproute2 and nft; skipped elsewhere.

#include "faults/namespaces.hpp"
#include "storage/atomic_file.hpp"
#include "tests/cluster/trial.hpp"

#include <fmt/format.h>
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

  /// `name_of_w0`: what the file has in place of its address.
  void write_cluster(std::size_t workers, bool keys, const std::string& name_of_w0 = "") {
    write_file({.slowdowns = std::vector<double>(workers, 5), .epochs = 1000});
    std::vector<std::string> hosts = {"hub"};
    for (std::size_t i = 0; i < workers; ++i)
      hosts.push_back(fmt::format("w{}", i));
    for (const auto& host : hosts) {
      const auto line = fmt::format("name = \"{}\"\n", host);
      const bool named = host == "w0" && !name_of_w0.empty();
      replace_in_file(line, fmt::format("{}address = \"{}\"\n", line, named ? name_of_w0 : network_.address(host)));
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

  /// Milliseconds until it says so are the test's property `named`.
  void expect_soon(const std::string& named, const program& who, const std::vector<std::string>& words) {
    const auto begin = std::chrono::steady_clock::now();
    const auto says_all = [&] { return std::ranges::all_of(words, [&](const auto& each) { return who.says(each); }); };
    while (!says_all() && std::chrono::steady_clock::now() - begin < soon)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_TRUE(says_all()) << named << "\n" << who.said();
    const auto taken = std::chrono::steady_clock::now() - begin;
    RecordProperty(named, static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(taken).count()));
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
  write_cluster(2, false, "ada.test");
  const auto real = network_.address("w0") + " ada.test\n";
  auto hub = start_there("hub", real);
  auto second = start_there("w1", real);
  auto first = start_there("w0", "127.0.0.1 localhost\n127.0.1.1 ada.test\n");
  expect_soon("loopback_ms", first, {"listens_on_loopback", "127.0.1.1"});
}

TEST_F(Networks, AFirewallThatLetsOnePortThroughIsNamedWithThePort) {
  write_cluster(2, false);
  filter("w0", fmt::format("add table inet f\nadd chain inet f in {{ type filter hook input priority 0; }}\n"
                           "add rule inet f in tcp dport != {} ct state new drop\n",
                           port(1)));
  auto hub = start_there("hub");
  auto first = start_there("w0");
  auto second = start_there("w1");
  ASSERT_TRUE(wait_until([&] { return hub.says("generation_formed"); })) << hub.said();
  const auto address = fmt::format("rank 0 at {}:", network_.address("w0"));
  expect_soon("caller_ms", second, {address, "is not reached: Connection timed out"});
  expect_soon("arbitrator_ms", hub, {"w1 could not continue in it: " + address});
}

class NetworksCut : public Networks, public ::testing::WithParamInterface<bool> {};

TEST_P(NetworksCut, BetweenTwoOfThreeFromTheBeginningIsNamedWithBoth) {
  write_cluster(3, GetParam());
  cut("w0", "w1");
  auto hub = start_there("hub");
  std::vector<program> workers;
  for (const auto* host : {"w0", "w1", "w2"})
    workers.push_back(start_there(host));
  ASSERT_TRUE(wait_until([&] { return hub.says("generation_formed"); })) << hub.said();
  const auto who = GetParam() ? std::string("host \"w0\" at ") : std::string("rank 0 at ");
  expect_soon("caller_ms", workers[1], {who, "is not reached"});
  expect_soon("arbitrator_ms", hub, {"w1 could not continue in it: " + who});
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
  const auto who = GetParam() ? std::string("host \"w0\" at ") : std::string("rank 0 at ");
  expect_soon("stream_ms", hub, {" could not continue in it: "});
  expect_soon("pair_ms", hub, {"w1 could not continue in it: " + who});
  heal("w0", "w1");
  EXPECT_TRUE(wait_for_more_windows(2)) << hub.said();
}

INSTANTIATE_TEST_SUITE_P(Of, NetworksCut, ::testing::Bool(),
                         [](const auto& given) { return given.param ? "HostsWithKeys" : "HostsInTheClear"; });

} // namespace
} // namespace dynamix::cluster_test
