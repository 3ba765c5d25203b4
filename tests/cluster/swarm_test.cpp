#include "ledger/file.hpp"
#include "tests/cluster/trial.hpp"

#include <nlohmann/json.hpp>

#include <filesystem>

namespace dynamix::cluster_test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class SwarmTrial : public trial {
protected:
  std::string out() const { return directory_.path() + "/swarm"; }

  /// `swarm --json` with these arguments; the figures it printed. Fails the test where it ended badly.
  json figures_of(std::vector<std::string> arguments) const {
    // Nobody is taken for late because the machine is busy.
    arguments.insert(arguments.begin(), {"swarm", "--json", "--set", "cluster.detect_ms=5000"});
    const auto ended = end_of(arguments);
    EXPECT_EQ(ended.code, 0) << ended.output;
    const auto begin = ended.output.find('{');
    return json::parse(begin == std::string::npos ? "{}" : ended.output.substr(begin));
  }

  void expect_complete(const json& figures, std::uint64_t workers, std::uint64_t windows) const {
    const auto decisions = workers * windows;
    EXPECT_EQ(figures["decisions"]["expected"], decisions);
    EXPECT_EQ(figures["decisions"]["made"], decisions);
    EXPECT_EQ(figures["decisions"]["applied"], decisions);
    EXPECT_EQ(figures["decisions"]["refused"], 0);
    EXPECT_EQ(figures["decisions"]["lost"], 0);
    EXPECT_EQ(figures["farewells"], workers);
    EXPECT_GE(figures["hellos"], workers);
  }
};

TEST_F(SwarmTrial, TalksInTheClearWhereItIsToldSo) {
  const auto figures = figures_of(
      {"--workers", "8", "--windows", "2", "--warm-up", "1", "--interval-ms", "50", "--insecure", "--out", out()});
  expect_complete(figures, 8, 3);
  EXPECT_EQ(figures["links"], false);
  EXPECT_FALSE(std::filesystem::exists(out() + "/keys"));
}

TEST_F(SwarmTrial, LosesNoDecisionWhenTheReplicaThatLeadsIsKilled) {
  for (const std::string topology : {"central", "tree"}) {
    const auto figures = figures_of({"--workers", "24", "--replicas", "3", "--kill-leader", "--topology", topology,
                                     "--fanout", "8", "--windows", "8", "--warm-up", "2", "--interval-ms", "200"});
    EXPECT_EQ(figures["decisions"]["expected"], 240) << topology;
    EXPECT_EQ(figures["decisions"]["applied"], 240) << topology;
    EXPECT_EQ(figures["decisions"]["lost"], 0) << topology;
    EXPECT_EQ(figures["farewells"], 24) << topology;
    EXPECT_EQ(figures["replicas"], 3) << topology;
    EXPECT_EQ(figures["leader_killed"]["before_window"], 5) << topology;
    EXPECT_EQ(figures["leader_killed"]["window_end_to_applied"]["count"], 24) << topology;
  }
  const auto alone = end_of({"swarm", "--workers", "8", "--kill-leader"});
  EXPECT_EQ(alone.code, 2);
  EXPECT_THAT(alone.output, HasSubstr("--kill-leader needs --replicas 3 or 5"));
  const auto clear = end_of({"swarm", "--workers", "8", "--replicas", "3", "--insecure"});
  EXPECT_EQ(clear.code, 2);
  EXPECT_THAT(clear.output, HasSubstr("--replicas needs keys"));
}

TEST_F(SwarmTrial, DecidesForEveryWorkerOnEveryWindowAndLosesNothing) {
  const auto figures = figures_of({"--workers", "64", "--windows", "9", "--warm-up", "1", "--interval-ms", "100"});
  expect_complete(figures, 64, 10);
  EXPECT_EQ(figures["links"], true);
  EXPECT_EQ(figures["windows"], 9);
  EXPECT_EQ(figures["window_end_to_applied"]["count"], 64 * 9);
  EXPECT_GT(figures["window_end_to_applied"]["p50_ms"], 0);
  EXPECT_LE(figures["window_end_to_applied"]["p50_ms"], figures["window_end_to_applied"]["p99_ms"]);
  ASSERT_EQ(figures["levels"].size(), 2U);
  for (const auto& level : figures["levels"]) {
    EXPECT_GT(level["cpu_seconds"], 0);
    EXPECT_GE(level["messages"], 2 * 64 * 9);
    EXPECT_GE(level["memory_bytes"], level["idle_bytes"]);
  }
}

TEST_F(SwarmTrial, LeavesARunDirectoryThatReportReadsAndBatchSizesThatFitTheHosts) {
  figures_of({"--workers", "8", "--windows", "10", "--warm-up", "0", "--interval-ms", "30", "--policy", "goodput",
              "--processes", "2", "--out", out()});
  std::string error;
  std::uint64_t windows = 0;
  messages::window_report fast;
  messages::window_report slow;
  for (const auto& row : ledger::read_file(out() + "/windows.jsonl", error))
    if (const auto* window = std::get_if<ledger::window>(&row.entry)) {
      ++windows;
      ASSERT_EQ(window->workers.size(), 8U);
      fast = window->workers[0].report;
      slow = window->workers[1].report;
    }
  EXPECT_EQ(windows, 10U);
  EXPECT_GT(fast.batch, 2 * slow.batch); // three times as fast
  EXPECT_NEAR(fast.training.compute_seconds / slow.training.compute_seconds, 1, 0.3);
  EXPECT_EQ(end_of({"report", "--run", out()}).code, 0);
  EXPECT_FALSE(std::filesystem::exists(out() + "/keys")) << "they were for this swarm alone";
  EXPECT_EQ(contents_of(out() + "/logs/arbitrator.log").find("message_refused"), std::string::npos);
}

TEST_F(SwarmTrial, ReachesEveryWorkerThroughThreeLevelsOfArbitrators) {
  const auto figures = figures_of({"--workers", "12", "--topology", "tree", "--fanout", "3", "--windows", "6",
                                   "--warm-up", "1", "--interval-ms", "100"});
  EXPECT_EQ(figures["decisions"]["expected"], 12 * 7);
  EXPECT_EQ(figures["decisions"]["applied"], 12 * 7);
  EXPECT_EQ(figures["decisions"]["refused"], 0);
  EXPECT_EQ(figures["decisions"]["lost"], 0);
  EXPECT_EQ(figures["farewells"], 12);
  ASSERT_EQ(figures["levels"].size(), 4U);
  const auto& levels = figures["levels"];
  EXPECT_EQ(levels[0]["level"], "arbitrator");
  EXPECT_EQ(levels[1]["level"], "level 1");
  EXPECT_EQ(levels[2]["level"], "shards");
  EXPECT_EQ(levels[2]["processes"], 4);
  EXPECT_GE(levels[2]["messages"], 2 * 12 * 6);
  EXPECT_EQ(levels[0]["messages"], 0); // the workers speak to shards alone
}

TEST_F(SwarmTrial, TakesTheHostsOfAClusterFile) {
  write_file({.slowdowns = {1, 1, 4}});
  expect_complete(figures_of({"--cluster", file(), "--windows", "2", "--warm-up", "1", "--interval-ms", "50"}), 3, 3);
}

TEST_F(SwarmTrial, RefusesWhatMakesNoSense) {
  const auto refused = [&](std::vector<std::string> arguments, const std::string& why) {
    arguments.insert(arguments.begin(), "swarm");
    const auto ended = end_of(arguments);
    EXPECT_EQ(ended.code, 2) << ended.output;
    EXPECT_THAT(ended.output, HasSubstr(why));
  };
  write_file({});
  refused({"--workers", "5000"}, "4096");
  refused({"--topology", "star"}, "topology");
  refused({"--policy", "magic"}, "policy");
  refused({"--cluster", "/nonexistent.toml"}, "/nonexistent.toml");
  refused({"--set", "batch.initial"}, "SECTION.FIELD=VALUE");
  refused({"--out", directory_.path() + "/.."}, "not empty");
}

TEST_F(SwarmTrial, EndsAllItsProcessesWhenItIsStopped) {
  auto running = start({"swarm", "--workers", "8", "--windows", "1000", "--interval-ms", "100", "--out", out()});
  ASSERT_TRUE(
      wait_until([&] { return contents_of(out() + "/windows.jsonl").find("\"window\"") != std::string::npos; }));
  running.signal(SIGINT);
  const auto ended = running.wait();
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.output, HasSubstr("stopped before the end"));
  EXPECT_TRUE(wait_until([&] {
    for (const auto& process : std::filesystem::directory_iterator("/proc"))
      if (contents_of(process.path().string() + "/cmdline").find(out()) != std::string::npos)
        return false;
    return true;
  }));
}

} // namespace
} // namespace dynamix::cluster_test
