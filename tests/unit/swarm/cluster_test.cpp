#include "simulator/scenario.hpp"
#include "swarm/cluster.hpp"
#include "tests/temporary_directory.hpp"
#include "tests/unit/parsed_cluster.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>
#include <set>
#include <utility>

namespace dynamix::swarm {
namespace {

class SwarmCluster : public ::testing::Test {
protected:
  const temporary_directory directory_;
  const std::string& models_ = directory_.path();
};

TEST_F(SwarmCluster, OfNoFileCanBeWrittenReadAndSimulatedAtEverySize) {
  ASSERT_EQ(write_models(models_), "");
  for (const std::uint32_t workers : {1U, 3U, 4096U}) {
    const auto file = describe(default_cluster(), workers, 20001, models_);
    const auto read = parsed_cluster(to_toml(file));
    EXPECT_EQ(read.digest(), file.digest());
    ASSERT_EQ(read.workers().size(), workers);
    simulator::scenario scenario;
    EXPECT_TRUE(simulator::load_scenario(read, scenario).empty());
    EXPECT_EQ(scenario.profiles.front().name, "fast");
    EXPECT_EQ(scenario.profiles.back().name, workers % 2 == 1 ? "fast" : "slow");
  }
}

TEST_F(SwarmCluster, HasReplicasOnPortsOfTheirOwn) {
  auto file = describe(default_cluster(), 3, 20001, models_);
  std::uint16_t port = 21000;
  add_replicas(file, 3, [&] { return ++port; });
  const auto read = parsed_cluster(to_toml(file));
  const std::vector<std::string> names = {"arbitrator", "arbitrator-2", "arbitrator-3"};
  EXPECT_EQ(read.arbitrator.replicas, names);
  std::set<std::uint32_t> ports;
  for (const auto* host : read.arbitrators())
    ports.insert(host->port);
  EXPECT_EQ(ports.size(), 3U);
  EXPECT_EQ(read.workers().size(), 3U);
}

TEST_F(SwarmCluster, TakesAFilesHostsInTurnAndLeavesOutWhatIsTheRealClustersOwn) {
  const auto real = parsed_cluster(R"([cluster]
name = "real"
[batch]
initial = 16
lowest = 8
[arbitrator]
replicas = ["a", "b", "c"]
[[host]]
name = "a"
address = "10.0.0.1"
port = 7001
roles = ["worker", "arbitrator"]
profile = "gpu.toml"
batch_highest = 128
[[host]]
name = "b"
address = "10.0.0.2"
port = 7001
roles = ["worker", "arbitrator"]
compute_slowdown = 2.0
join_at_seconds = 5.0
[[host]]
name = "c"
address = "10.0.0.3"
port = 7001
roles = ["arbitrator"]
)",
                                   "real/real.toml");
  const auto file = describe(real, 5, 20001, models_);
  EXPECT_TRUE(cluster::parse_cluster_text(to_toml(file), "swarm.toml").errors.empty());
  EXPECT_TRUE(file.arbitrator.replicas.empty());
  EXPECT_TRUE(file.dashboard.listen.empty());
  EXPECT_EQ(file.arbitrators().size(), 1U);
  const auto workers = file.workers();
  ASSERT_EQ(workers.size(), 5U);
  for (std::size_t rank = 0; rank < workers.size(); ++rank) {
    const auto& host = *workers[rank];
    EXPECT_EQ(host.name, "w" + std::to_string(rank + 1));
    EXPECT_TRUE(cluster::is_loopback(host.address));
    EXPECT_EQ(host.batch_highest, rank % 2 == 0 ? 128U : 0U);
    EXPECT_EQ(host.emulate.size(), rank % 2 == 0 ? 0U : 1U);
    EXPECT_EQ(host.join_at_seconds, 0);
  }
  EXPECT_TRUE(std::filesystem::path(workers[0]->profile).is_absolute());
  EXPECT_EQ(std::filesystem::path(workers[0]->profile).filename(), "gpu.toml");
  EXPECT_EQ(file.batch.initial, 16U);
}

TEST(DealRanks, GivesEveryRankToOneProcessAndKeepsShardsTogether) {
  for (const std::uint32_t workers : {1U, 31U, 64U, 1000U, 4096U})
    for (const std::uint32_t processes : {1U, 2U, 7U, 8U})
      for (const bool tree : {false, true}) {
        auto file = describe(default_cluster(), workers, 20001, "/nonexistent");
        if (tree)
          file.arbitrator.topology = cluster::arbitration_topology::tree;
        const auto shards = shard_sizes(file);
        EXPECT_EQ(std::accumulate(shards.begin(), shards.end(), 0U), workers);
        std::set<std::uint32_t> begins;
        std::uint32_t begin = 0;
        for (const auto size : shards)
          begins.insert(std::exchange(begin, begin + size));
        const auto dealt = deal_ranks(shards, processes);
        EXPECT_LE(dealt.size(), processes);
        std::uint32_t next = 0;
        for (const auto& ranks : dealt) {
          ASSERT_FALSE(ranks.empty());
          EXPECT_TRUE(begins.contains(ranks.front()));
          EXPECT_LE(ranks.size(), workers / dealt.size() + 2 * 32);
          for (const auto rank : ranks)
            EXPECT_EQ(rank, next++);
        }
        EXPECT_EQ(next, workers);
      }
}

TEST(PlaceArbitrators, GivesThoseBelowTheRootPortsOfTheirOwn) {
  auto file = describe(default_cluster(), 100, 20001, "/nonexistent");
  std::uint16_t next = 30000;
  const auto free_port = [&] { return next++; };
  EXPECT_EQ(place_arbitrators(file, free_port), "");
  EXPECT_EQ(next, 30000); // central
  file.arbitrator.topology = cluster::arbitration_topology::tree;
  file.arbitrator.fanout = 32;
  EXPECT_EQ(place_arbitrators(file, free_port), "");
  EXPECT_EQ(next, 30004);
  EXPECT_EQ(file.arbitrator_host().port, 20001);
  EXPECT_TRUE(cluster::parse_cluster_text(to_toml(file), "swarm.toml").errors.empty());
}

} // namespace
} // namespace dynamix::swarm
