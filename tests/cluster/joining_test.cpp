/// Hosts that are started by hand find each other, and refuse who does not belong.

#include "tests/cluster/trial.hpp"
#include "tests/unit/node/notify_socket.hpp"

#include <algorithm>

namespace dynamix::cluster_test {
namespace {

using ::testing::HasSubstr;

class Joining : public trial {
protected:
  /// Starts the hosts in this order, each when the one before is up, and waits for all of them to end well.
  void expect_end_in_order(const std::vector<std::string>& hosts) {
    write_file({.epochs = 0.3});
    std::vector<program> started;
    for (const auto& host : hosts) {
      started.push_back(start_host(host));
      EXPECT_TRUE(wait_until([&] {
        return host == "hub" ? !contents_of(run().ledger()).empty() : started.back().says("connecting to=hub");
      })) << host;
    }
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      const auto ended = started[i].wait();
      EXPECT_EQ(ended.code, 0) << hosts[i] << "\n" << ended.output;
    }
    EXPECT_TRUE(farewell_of("w0").succeeded);
    EXPECT_EQ(farewell_of("w0").parameter_checksum, farewell_of("w1").parameter_checksum);
  }
};

TEST_F(Joining, WorksWhenTheArbitratorIsFirst) {
  expect_end_in_order({"hub", "w0", "w1"});
}

TEST_F(Joining, WorksWhenTheArbitratorIsLast) {
  expect_end_in_order({"w1", "w0", "hub"});
}

TEST_F(Joining, WorksWhenTheArbitratorIsInTheMiddle) {
  expect_end_in_order({"w1", "hub", "w0"});
}

TEST_F(Joining, TellsWhoStartsItAsAServiceThatItIsReadyAndAliveAndEnds) {
  const node::testing::notify_socket manager(directory_.path() + "/notify");
  ::setenv("WATCHDOG_USEC", "200000", 1);
  write_file({});
  auto arbitrator = start_host("hub");
  std::vector<std::string> heard;
  const auto hears = [&](const std::string& text) {
    return wait_until([&] {
      for (auto said = manager.heard(); !said.empty(); said = manager.heard())
        heard.push_back(said);
      return std::ranges::any_of(heard, [&](const auto& each) { return each.find(text) != std::string::npos; });
    });
  };
  EXPECT_TRUE(hears("WATCHDOG=1"));
  ASSERT_FALSE(heard.empty());
  EXPECT_EQ(heard.front(), "READY=1\nSTATUS=hub runs as arbitrator");
  arbitrator.signal(SIGTERM);
  EXPECT_TRUE(hears("STOPPING=1\nSTATUS=takes its actors down\n"));
  EXPECT_TRUE(hears("STOPPING=1\nSTATUS=writes results: "));
  arbitrator.wait();
}

TEST_F(Joining, RefusesAHostWithAnotherVersionOfTheClusterFile) {
  write_file({.slowdowns = {1}, .epochs = 0.3});
  auto arbitrator = start_host("hub");
  ASSERT_TRUE(wait_until([&] { return !contents_of(run().ledger()).empty(); })) << "it has not read the file";
  replace_in_file("seed = 3", "seed = 4");
  const auto other =
      start({"run", "--cluster", file(), "--name", "w0", "--out", directory_.path() + "/other", "--log-to-stderr"})
          .wait();
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(other.output, HasSubstr("the arbitrator refused this host: host w0 read another version of the cluster "
                                      "file; copy the same one to every host"));
  EXPECT_TRUE(arbitrator.says("refused host=w0"));
  EXPECT_TRUE(arbitrator.running());

  // The refusal leaves the place free for the right one.
  replace_in_file("seed = 4", "seed = 3");
  auto worker = start_host("w0");
  EXPECT_EQ(worker.wait().code, 0) << worker.said();
  EXPECT_EQ(arbitrator.wait().code, 0) << arbitrator.said();
}

} // namespace
} // namespace dynamix::cluster_test
