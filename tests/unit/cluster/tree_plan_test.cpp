#include "cluster/places.hpp"
#include "cluster/tree_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

namespace dynamix::cluster {
namespace {

cluster_file file_of(std::uint32_t workers, std::uint32_t fanout, bool root_works = false) {
  cluster_file file;
  file.name = "planned";
  file.arbitrator.topology = arbitration_topology::tree;
  file.arbitrator.fanout = fanout;
  file.hosts.push_back({.name = "hub", .port = 1, .roles = {role::arbitrator}});
  if (root_works)
    file.hosts[0].roles.push_back(role::worker);
  for (std::uint32_t i = root_works ? 1 : 0; i < workers; ++i)
    file.hosts.push_back({.name = "w" + std::to_string(i), .port = static_cast<std::uint16_t>(i + 2)});
  return file;
}

std::vector<std::uint32_t> shard_sizes(const tree_plan& plan) {
  std::vector<std::uint32_t> sizes;
  for (const auto& node : plan.nodes)
    if (node.is_shard() && !node.stands_by)
      sizes.push_back(node.workers);
  return sizes;
}

void expect_tree(const cluster_file& file, const tree_plan& plan) {
  const auto workers = static_cast<std::uint32_t>(file.workers().size());
  const std::size_t fanout = file.arbitrator.fanout;
  std::set<std::string> hosts;
  std::uint32_t next = 0;
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
    const auto& node = plan.nodes[i];
    EXPECT_TRUE(hosts.insert(node.host).second) << node.host << " holds two";
    EXPECT_NE(file.find(node.host), nullptr);
    EXPECT_LE(node.children.size(), fanout);
    std::uint32_t below = 0;
    for (const auto child : node.children) {
      EXPECT_EQ(plan.nodes[child].parent, i);
      EXPECT_EQ(plan.nodes[child].level, node.level + 1);
      below += plan.nodes[child].workers;
    }
    if (node.stands_by) {
      EXPECT_TRUE(node.is_shard() && node.parent == 0 && node.workers == 0 && node.level == 1);
      continue;
    }
    EXPECT_EQ(below, node.children.empty() ? 0 : node.workers);
    EXPECT_EQ(std::ranges::count(plan.nodes[node.parent].children, i), i == 0 ? 0 : 1);
    if (!node.is_shard())
      continue;
    EXPECT_EQ(node.level, plan.depth - 1) << "all shards are on one level";
    EXPECT_EQ(node.first_rank, next) << "every worker has one parent";
    EXPECT_LE(node.workers, fanout);
    EXPECT_GE(node.workers, 1U);
    next += node.workers;
  }
  EXPECT_EQ(next, workers);
  const auto sizes = shard_sizes(plan);
  EXPECT_LE(std::ranges::max(sizes) - std::ranges::min(sizes), 1U) << "balanced";
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    const auto& shard = plan.nodes[plan.shard_of(rank)];
    EXPECT_TRUE(shard.is_shard() && rank >= shard.first_rank && rank < shard.first_rank + shard.workers);
  }
}

TEST(TreePlan, HoldsForRandomClusters) {
  std::mt19937_64 random(7);
  int planned = 0;
  for (int i = 0; i < 400; ++i) {
    const auto fanout = static_cast<std::uint32_t>(2 + random() % 40);
    const auto workers = static_cast<std::uint32_t>(fanout + 1 + random() % 600);
    const auto file = file_of(workers, fanout, random() % 2 == 0);
    const auto plan = plan_tree(file);
    if (!plan.error.empty()) {
      EXPECT_EQ(fanout, 2U) << plan.error;
      continue;
    }
    ++planned;
    expect_tree(file, plan);
    const auto depth = std::ceil(std::log(workers) / std::log(fanout) - 1e-9);
    EXPECT_EQ(plan.depth, static_cast<std::uint32_t>(depth)) << workers << " workers, fanout " << fanout;
    EXPECT_EQ(describe_tree_json(plan), describe_tree_json(plan_tree(file))) << "the same on every host";
  }
  EXPECT_GT(planned, 300);
}

TEST(TreePlan, IsTheCentralFormUpToFanoutWorkersAndWithoutATree) {
  EXPECT_TRUE(plan_tree(file_of(32, 32)).central());
  EXPECT_FALSE(plan_tree(file_of(33, 32)).central());
  auto central = file_of(1000, 32);
  central.arbitrator.topology = arbitration_topology::central;
  EXPECT_TRUE(plan_tree(central).central());
  EXPECT_EQ(plan_tree(central).depth, 1U);
}

TEST(TreePlan, HasThreeLevelsWhereTwoDoNotDo) {
  EXPECT_EQ(plan_tree(file_of(1024, 32)).depth, 2U);
  const auto plan = plan_tree(file_of(4096, 32));
  EXPECT_EQ(plan.depth, 3U);
  EXPECT_EQ(plan.nodes[0].children.size(), 4U);
  EXPECT_EQ(shard_sizes(plan), std::vector<std::uint32_t>(128, 32));
}

TEST(TreePlan, SaysWhereWorkersAndShardsLookForAParent) {
  const auto plan = plan_tree(file_of(12, 3)); // 4 shards of 3 under 2 under the root
  ASSERT_EQ(plan.depth, 3U);
  const auto home = plan.shard_of(4);
  const auto places = plan.places_for_worker(4);
  EXPECT_EQ(std::vector(places.begin(), places.begin() + 3),
            (std::vector<std::size_t>{home, plan.nodes[plan.nodes[home].parent].children[0], 0}));
  EXPECT_TRUE(places.size() == 4 && plan.nodes[places[3]].stands_by);
  for (std::size_t node = 1; node < plan.nodes.size(); ++node)
    if (plan.nodes[node].is_shard()) {
      EXPECT_EQ(plan.may_go(4, node), std::ranges::find(places, node) != places.end()) << node;
      EXPECT_EQ(plan.places_for_node(home), (std::vector<std::size_t>{plan.nodes[home].parent, 0}));
    }
  EXPECT_TRUE(plan.places_for_node(0).empty());
}

TEST(TreePlan, LetsShardsStandByOnHostsThatHoldNothingElse) {
  const auto standbys = [](const cluster_file& file) {
    const auto plan = plan_tree(file);
    return std::ranges::count(plan.nodes, true, &tree_node::stands_by);
  };
  EXPECT_EQ(standbys(file_of(33, 32)), 2) << "one for each shard";
  EXPECT_EQ(standbys(file_of(1024, 32)), 1) << "the root has 32 below it";
  EXPECT_EQ(standbys(file_of(9, 3)), 1);
  auto named = file_of(12, 4);
  named.arbitrator.shards = {"w3", "w7", "w11"};
  EXPECT_EQ(standbys(named), 0) << "its user has said where shards are to be";
  EXPECT_THAT(describe_tree(plan_tree(file_of(9, 3))), testing::HasSubstr("w1: a shard that stands by"));
}

TEST(TreePlan, TakesTheHostsThatTheFileNames) {
  auto file = file_of(12, 4);
  file.arbitrator.shards = {"w3", "w7", "w11"};
  auto plan = plan_tree(file);
  ASSERT_EQ(plan.error, "");
  EXPECT_EQ(plan.nodes.size(), 4U);
  EXPECT_EQ(plan.nodes[1].host, "w3");
  EXPECT_EQ(plan.nodes[3].host, "w11");
  file.arbitrator.shards = {"w3", "w7", "w11", "w0"};
  plan = plan_tree(file);
  EXPECT_EQ(shard_sizes(plan), (std::vector<std::uint32_t>{3, 3, 3, 3})) << "as many shards as there are hosts for";
  file.arbitrator.shards = {"w3", "w7"};
  EXPECT_EQ(plan_tree(file).error, "arbitrator.shards names 2 hosts, but 12 workers with a fanout of 4 need 3");
}

TEST(TreePlan, IsRefusedWhereThereAreTooFewHostsOrLeftOut) {
  auto file = file_of(9, 2);
  EXPECT_THAT(plan_tree(file).error, testing::HasSubstr("needs 10 workers' hosts"));
  file.arbitrator.topology = arbitration_topology::automatic;
  EXPECT_TRUE(plan_tree(file).error.empty() && plan_tree(file).central());
  file = file_of(9, 3);
  file.arbitrator.topology = arbitration_topology::automatic;
  EXPECT_EQ(plan_tree(file).nodes.size(), 5U);
}

/// The first so many hosts with these numbers of workers.
cluster_file file_of_slots(const std::vector<std::uint32_t>& slots, std::uint32_t fanout) {
  auto file = file_of(static_cast<std::uint32_t>(slots.size()), fanout);
  for (std::size_t i = 0; i < slots.size(); ++i)
    for (std::uint32_t slot = 0; slots[i] > 1 && slot < slots[i]; ++slot)
      file.hosts[i + 1].slots.push_back({.name = file.hosts[i + 1].name + "/" + std::to_string(slot)});
  return file;
}

TEST(TreePlan, KeepsTheWorkersOfAHostInOneShard) {
  auto plan = plan_tree(file_of_slots({8, 8, 8, 8, 8}, 8));
  ASSERT_EQ(plan.error, "");
  EXPECT_EQ(shard_sizes(plan), (std::vector<std::uint32_t>{8, 8, 8, 8, 8}));
  EXPECT_EQ(plan.nodes[2].host, "w1");
  EXPECT_EQ(plan.nodes[2].first_rank, 8U);
  plan = plan_tree(file_of_slots({3, 1, 1, 3, 2, 2}, 4));
  ASSERT_EQ(plan.error, "");
  std::uint32_t rank = 0;
  for (const auto workers : {3U, 1U, 1U, 3U, 2U, 2U}) {
    for (std::uint32_t slot = 1; slot < workers; ++slot)
      EXPECT_EQ(plan.shard_of(rank + slot), plan.shard_of(rank)) << rank;
    rank += workers;
  }
  for (const auto size : shard_sizes(plan))
    EXPECT_LE(size, 4U);
  EXPECT_EQ(shard_sizes(plan_tree(file_of_slots({9, 2}, 4))), (std::vector<std::uint32_t>{9, 2}))
      << "a host with more than fanout has a shard of its own";
}

TEST(TreePlan, HasOneRootOnAllHostsOfReplicas) {
  auto file = file_of(6, 3);
  file.hosts.push_back({.name = "hub2", .port = 8, .roles = {role::arbitrator}});
  file.hosts.push_back({.name = "hub3", .port = 9, .roles = {role::arbitrator}});
  const auto plan = plan_tree(file);
  for (const auto* hub : {"hub", "hub2", "hub3"})
    EXPECT_EQ(plan.find(hub), 0U);
  EXPECT_EQ(plan.hosts_of(0), (std::vector<std::string>{"hub", "hub2", "hub3"}));
  EXPECT_EQ(plan.hosts_of(1), std::vector<std::string>{plan.nodes[1].host});
  EXPECT_EQ(plan.find("nobody"), plan.nodes.size());
}

TEST(TreePlan, OfAnOpenClusterHasShardsForAllWhoMayCome) {
  auto file = file_of(4, 3);
  file.membership = membership_kind::open;
  file.workers_max = 12;
  auto plan = plan_tree(with_places(file));
  ASSERT_EQ(plan.error, "");
  EXPECT_EQ(shard_sizes(plan), (std::vector<std::uint32_t>{1, 1, 2})) << "more would need a level that has no host";
  EXPECT_EQ(describe_tree_json(plan), describe_tree_json(plan_tree(file))) << "with its places or without";
  EXPECT_EQ(plan.shard_of(4), 0U) << "the root says where there is room";
  EXPECT_EQ(plan.places_for_worker(4), (std::vector<std::size_t>{0, 1, 2, 3, 4})) << "that stands by last";
  file.hosts.resize(2);
  plan = plan_tree(with_places(file));
  EXPECT_EQ(shard_sizes(plan), std::vector<std::uint32_t>{1}) << "of one host, which all guests come to";
  file.hosts.resize(1);
  EXPECT_THAT(plan_tree(file).error, testing::HasSubstr("stand on hosts that the file names"));
  file.workers_max = 3;
  EXPECT_TRUE(plan_tree(file).central());
}

TEST(TreePlan, IsDrawn) {
  EXPECT_THAT(describe_tree(plan_tree(file_of(5, 3))),
              testing::HasSubstr("  hub: root of 2 arbitrators\n"
                                 "  ├─ w0: shard of 2 workers, ranks 0 to 1\n"
                                 "  └─ w2: shard of 3 workers, ranks 2 to 4\n"));
  EXPECT_THAT(describe_tree(plan_tree(file_of(2, 3))), testing::HasSubstr("one arbitrator, on hub, for 2 workers"));
}

} // namespace
} // namespace dynamix::cluster
