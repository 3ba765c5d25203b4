// Which shards take workers, and whose they are: by command, and where one is lost.

#include "actors/aggregator/layout_decision.hpp"
#include "tests/unit/actors/noted_aggregator.hpp"

#include <gmock/gmock.h>

namespace dynamix::actors {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Eight hosts of one worker, shards of four on w0 and w4, and those that stand by on w1 and w2.
class LayoutDecision : public ::testing::Test {
protected:
  LayoutDecision() { make(8, 4); }
  void make(std::uint32_t workers, std::uint32_t fanout) {
    file = testing::file_of(workers);
    file.arbitrator.topology = cluster::arbitration_topology::tree;
    file.arbitrator.fanout = fanout;
    plan = cluster::plan_tree(file);
    layout = plan_layout(plan, workers, file.digest());
    machines.clear();
    at.clear();
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
      machines.push_back(fmt::format("w{}", rank));
      at.push_back(layout.homes[rank]);
    }
    here.clear();
    for (std::uint32_t node = 1; node < plan.nodes.size(); ++node)
      here.insert(node);
  }
  std::uint32_t node(const std::string& host) const { return static_cast<std::uint32_t>(plan.find(host)); }
  tree_view view() const {
    return {
        .plan = plan, .layout = layout, .machines = machines, .at = at, .here = here, .fanout = file.arbitrator.fanout};
  }
  void set_serving(std::uint32_t node, bool takes) {
    std::erase(layout.serving, node);
    if (takes)
      layout.serving.push_back(node);
    std::ranges::sort(layout.serving);
  }
  layout_change decide(const std::string& line) const { return decide_layout(*read_command(line), view()); }
  std::string take(const std::string& line) {
    auto change = decide(line);
    if (change.layout)
      layout = *change.layout;
    return change.reason;
  }
  std::vector<std::string> homes() const {
    std::vector<std::string> found;
    for (const auto home : layout.homes)
      found.push_back(home == 0 ? "" : plan.nodes[home].host);
    return found;
  }

  cluster::cluster_file file;
  cluster::tree_plan plan;
  shard_layout layout;
  std::vector<std::string> machines;
  std::vector<std::uint32_t> at;
  std::set<std::uint32_t> here;
};

TEST_F(LayoutDecision, BeginsAsPlanned) {
  EXPECT_THAT(homes(), ElementsAre("w0", "w0", "w0", "w0", "w4", "w4", "w4", "w4"));
  EXPECT_TRUE(serves(layout, node("w0")));
  EXPECT_FALSE(serves(layout, node("w1")));
  EXPECT_TRUE(is_layout_of(layout, plan, 8, file.digest()));
  EXPECT_FALSE(is_layout_of(layout, plan, 8, file.digest() + 1)) << "of another cluster file";
  EXPECT_FALSE(is_layout_of(layout, plan, 9, file.digest()));
  auto planted = layout;
  ASSERT_EQ(planted.serving.size(), 2U);
  std::swap(planted.serving.front(), planted.serving.back());
  EXPECT_FALSE(is_layout_of(planted, plan, 8, file.digest())) << "a shard in it would not be found";
  planted.serving.front() = planted.serving.back();
  EXPECT_FALSE(is_layout_of(planted, plan, 8, file.digest()));
}

TEST_F(LayoutDecision, ReadsCommands) {
  EXPECT_EQ(read_command("move ada ben")->to, "ben");
  for (const auto* wrong : {"", "add", "move ada", "add ada ben", "remove ada", "move ada ben cy"})
    EXPECT_FALSE(read_command(wrong)) << wrong;
}

TEST_F(LayoutDecision, AddsAShardWithWorkersOfTheLargestAndItsOwnHostsFirst) {
  EXPECT_EQ(take("add w1"), "the shard of host w1 takes 2 workers from the others");
  EXPECT_THAT(homes(), ElementsAre("w0", "w1", "w0", "w0", "w4", "w4", "w4", "w1"));
  EXPECT_EQ(take("add w1"), "the shard of host w1 takes workers already");
}

TEST_F(LayoutDecision, DrainsAShardToTheOthersEvenly) {
  take("add w1");
  EXPECT_EQ(take("drain w4"), "3 workers of the shard of host w4 go to w0, w1");
  EXPECT_THAT(count_workers(view()), ElementsAre(std::pair(node("w0"), 4U), std::pair(node("w1"), 4U)));
  EXPECT_EQ(take("drain w4"), "the shard of host w4 stands by already");
}

TEST_F(LayoutDecision, LeavesTheLastShardThatIsThereItsWorkers) {
  here.erase(node("w4"));
  const auto change = decide("drain w0");
  EXPECT_FALSE(change.layout);
  EXPECT_EQ(change.reason, "the shard of host w0 is the only one that is there: add another first");
}

TEST_F(LayoutDecision, MovesAShardToAnotherHostAlsoOneThatIsLost) {
  here.erase(node("w4"));
  EXPECT_EQ(take("move w4 w2"), "4 workers of the shard of host w4 go to that of host w2");
  EXPECT_THAT(homes(), ElementsAre("w0", "w0", "w0", "w0", "w2", "w2", "w2", "w2"));
  EXPECT_FALSE(serves(layout, node("w4")));
}

TEST_F(LayoutDecision, RefusesHostsThatCannotHoldAShard) {
  EXPECT_EQ(take("drain north"), "host north holds the root, or may");
  EXPECT_EQ(take("add w7"), "host w7 holds no shard, and none that stands by");
  here.erase(node("w1"));
  EXPECT_EQ(take("add w1"), "the shard of host w1 is not there");
  make(12, 3);
  for (const auto& one : plan.nodes)
    if (one.level == 1 && !one.is_shard()) {
      EXPECT_THAT(take("drain " + one.host), HasSubstr("holds an arbitrator above shards"));
    }
}

/// The root sees which of its children a worker comes through, and would send nobody from one of these to the other.
TEST_F(LayoutDecision, SendsNobodyFromOneShardToAnotherBelowTheSameArbitrator) {
  make(12, 3);
  std::vector<std::uint32_t> below;
  for (std::uint32_t one = 1; one < plan.nodes.size() && below.size() < 2; ++one)
    if (plan.nodes[one].is_shard() && plan.nodes[one].parent != 0 &&
        (below.empty() || plan.nodes[below.front()].parent == plan.nodes[one].parent))
      below.push_back(one);
  ASSERT_EQ(below.size(), 2U);
  const auto from = plan.nodes[below[0]].host;
  const auto to = plan.nodes[below[1]].host;
  EXPECT_FALSE(decide("drain " + from).layout);
  EXPECT_THAT(take("drain " + from), HasSubstr("since those below the same arbitrator cannot take its workers"));
  set_serving(below[1], false);
  EXPECT_FALSE(decide("move " + from + " " + to).layout);
  EXPECT_THAT(take("move " + from + " " + to), HasSubstr("workers cannot be sent from one to the other"));
  for (std::uint32_t rank = 0; rank < layout.homes.size(); ++rank) // as those that came while it was away
    if (layout.homes[rank] == below[1])
      layout.homes[rank] = below[0];
  const auto homes_then = homes();
  take("add " + to);
  EXPECT_EQ(homes(), homes_then) << "also not those of its own host";
}

TEST_F(LayoutDecision, MovesAllWorkersOfAHostTogether) {
  for (std::uint32_t rank = 0; rank < 8; ++rank)
    machines[rank] = fmt::format("m{}", rank / 2);
  take("add w1");
  for (std::uint32_t rank = 0; rank < 8; rank += 2)
    EXPECT_EQ(layout.homes[rank], layout.homes[rank + 1]) << rank;
  take("drain w0");
  for (std::uint32_t rank = 0; rank < 8; rank += 2)
    EXPECT_EQ(layout.homes[rank], layout.homes[rank + 1]) << rank;
}

TEST_F(LayoutDecision, CountsAndMovesWorkersOfPlacesWhereTheyAre) {
  for (std::uint32_t rank = 4; rank < 8; ++rank) {
    layout.homes[rank] = 0;
    at[rank] = node("w0");
  }
  EXPECT_EQ(count_workers(view()).at(node("w0")), 8U);
  EXPECT_EQ(take("drain w0"), "8 workers of the shard of host w0 go to w4");
  EXPECT_THAT(homes(), Each("w4"));
}

TEST_F(LayoutDecision, SendsWhoIsGoneToWhicheverHasRoomWhenItComesAgain) {
  machines[1].clear();
  EXPECT_EQ(take("drain w0"), "3 workers of the shard of host w0 go to w4");
  EXPECT_EQ(layout.homes[1], 0U);
}

TEST_F(LayoutDecision, ReplacesALostShardOnlyWhereTheOthersHaveNoRoom) {
  here.erase(node("w4"));
  const auto change = replace_shard(node("w4"), view());
  ASSERT_TRUE(change.layout);
  EXPECT_EQ(change.reason, "the shard of host w4 is away: 4 workers of the shard of host w4 go to that of host w1");
  file.arbitrator.fanout = 8;
  EXPECT_FALSE(replace_shard(node("w4"), view()).layout) << "w0 has room for eight";
  file.arbitrator.fanout = 4;
  here = {node("w0")};
  EXPECT_EQ(replace_shard(node("w4"), view()).reason, "no shard stands by");
}

} // namespace
} // namespace dynamix::actors
