/// The shards of a tree while it trains: listed, added, drained and moved by command, and one that is lost replaced.

#include "tests/cluster/trial.hpp"

#include <nlohmann/json.hpp>

#include <map>
#include <set>

namespace dynamix::cluster_test {
namespace {

using ::testing::HasSubstr;

/// Shards of two: those of w0 and w2, and one that stands by on w1.
class Shards : public trial {
protected:
  ended_program arbitrators(std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"arbitrators", "--run", run().path()});
    return end_of(more);
  }
  nlohmann::json list() const {
    const auto said = arbitrators({"--json"});
    const auto parsed = nlohmann::json::parse(said.output, nullptr, false);
    return said.code == 0 && parsed.is_object() ? parsed : nlohmann::json{{"arbitrators", nlohmann::json::array()}};
  }
  /// Waits until a host's shard is in that state and has these workers.
  bool wait_for(const std::string& host, const std::string& state, const std::set<std::string>& workers) const {
    return wait_until([&] {
      const auto now = list();
      for (const auto& one : now["arbitrators"])
        if (one["host"] == host)
          return one["state"] == state && one["workers"].get<std::set<std::string>>() == workers;
      return false;
    });
  }
  void write_tree(double epochs, std::size_t replicas) {
    write_file({.slowdowns = {30, 30, 30, 30},
                .epochs = epochs,
                .training = "evaluate_every_epochs = 1000\ncheckpoint_every_epochs = 1000\n",
                .replicas = replicas,
                .arbitrator = "policy = \"goodput\"\ntopology = \"tree\"\nfanout = 2\n",
                .cluster = "detect_ms = 2000\n"});
  }
};

TEST_F(Shards, AreListedAddedAndDrainedWhileTheClusterTrainsAndItsLeaderDies) {
  write_tree(3, 3);
  auto local = start_local();
  ASSERT_TRUE(wait_for_windows(2)) << local.said();
  ASSERT_TRUE(wait_for("w0", "decides", {"w0", "w1"})) << local.said();
  const auto table = arbitrators();
  EXPECT_EQ(table.code, 0) << table.output;
  EXPECT_THAT(table.output, HasSubstr("replicas hub, hub2, hub3"));
  EXPECT_THAT(table.output, ::testing::ContainsRegex("w1 +shard +stands by +hub.? +0"));

  EXPECT_THAT(arbitrators({"--add", "w1"}).output, HasSubstr("the shard of host w1 takes 1 worker from the others"));
  ASSERT_TRUE(wait_for("w1", "decides", {"w1"})) << local.said();
  EXPECT_THAT(arbitrators({"--drain", "w2"}).output, HasSubstr("2 workers of the shard of host w2 go to w0, w1"));
  ASSERT_TRUE(wait_for("w2", "stands by", {})) << local.said();
  const auto wrong = arbitrators({"--drain", "w22"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.output, HasSubstr("there is no arbitrator on host w22; did you mean \"w2\"?"));
  const auto again = arbitrators({"--drain", "w2"});
  EXPECT_EQ(again.code, 2);
  EXPECT_THAT(again.output, HasSubstr("the shard of host w2 stands by already"));

  const auto first = list()["root"].get<std::string>();
  ASSERT_TRUE(local.signal_host(first, SIGKILL)) << local.said();
  ASSERT_TRUE(wait_until([&] {
    const auto now = list();
    return now.contains("root") && now["root"] != first;
  })) << local.said();
  ASSERT_TRUE(wait_for("w2", "stands by", {})) << "the new leader knows\n" << local.said();
  const auto before = windows().size();
  ASSERT_TRUE(wait_for_windows(before + 2)) << local.said();
  EXPECT_THAT(arbitrators({"--move", "w0", "w2"}).output, HasSubstr("go to that of host w2"));
  ASSERT_TRUE(wait_for("w0", "stands by", {})) << local.said();

  const auto ended = local.wait();
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_EQ(generations().size(), 1U) << "the workers trained on";
  const auto summary = nlohmann::json::parse(contents_of(run().summary()));
  EXPECT_EQ(summary["decisions"]["lost"], 0);
  EXPECT_EQ(summary["decisions"]["duplicated"], 0);
  for (const char* worker : {"w0", "w1", "w2", "w3"}) {
    EXPECT_EQ(farewell_of(worker).samples, 18000U) << worker;
    EXPECT_EQ(farewell_of(worker).parameter_checksum, farewell_of("w0").parameter_checksum) << worker;
  }
}

TEST_F(Shards, AreReplacedByOneThatStandsByWhenTheirHostIsGone) {
  write_tree(1000, 1);
  std::map<std::string, program> hosts;
  for (const auto* host : {"hub", "w0", "w1", "w2", "w3"})
    hosts.emplace(host, start_host(host));
  ASSERT_TRUE(wait_for_windows(2)) << hosts.at("hub").said();
  hosts.at("w2").signal(SIGKILL);
  hosts.at("w2").wait();
  ASSERT_TRUE(wait_for("w1", "decides", {"w3"})) << hosts.at("hub").said();
  EXPECT_THAT(hosts.at("hub").said(), HasSubstr("the shard of host w2 is away: 2 workers"));
  ASSERT_TRUE(wait_for_generation({"w0", "w1", "w3"})) << hosts.at("hub").said();
  hosts.insert_or_assign("w2", start_host("w2", "--resume"));
  ASSERT_TRUE(wait_for("w1", "decides", {"w2", "w3"})) << hosts.at("w2").said();
  ASSERT_TRUE(wait_for("w2", "stands by", {})) << hosts.at("w2").said();
  ASSERT_TRUE(wait_for_generation({"w0", "w1", "w2", "w3"}, 2)) << hosts.at("w2").said();

  hosts.at("hub").signal(SIGKILL); // the only one, started again: it has kept whose the workers are
  hosts.at("hub").wait();
  hosts.insert_or_assign("hub", start_host("hub", "--resume"));
  ASSERT_TRUE(wait_for("w1", "decides", {"w2", "w3"})) << hosts.at("hub").said();
  const auto before = windows().size();
  ASSERT_TRUE(wait_for_windows(before + 1)) << hosts.at("hub").said();
  hosts.at("w0").signal(SIGINT); // training ends
  for (auto& [name, one] : hosts)
    EXPECT_EQ(one.wait().code, name == "w0" ? 130 : 3) << name << ": " << one.said();
  for (const auto* worker : {"w1", "w2", "w3"})
    EXPECT_EQ(farewell_of(worker).parameter_checksum, farewell_of("w0").parameter_checksum) << worker;
}

} // namespace
} // namespace dynamix::cluster_test
