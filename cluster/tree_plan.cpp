#include "cluster/tree_plan.hpp"

#include <algorithm>
#include <fmt/core.h>
#include <set>

namespace dynamix::cluster {
namespace {

using indices = std::vector<std::size_t>;

std::size_t divide_up(std::size_t value, std::size_t by) {
  return (value + by - 1) / by;
}

/// Arbitrators of each level below the root, from the shards up; empty: the root alone.
indices level_sizes(std::size_t shards, std::size_t fanout) {
  indices sizes = {shards};
  while (sizes.back() > fanout)
    sizes.push_back(divide_up(sizes.back(), fanout));
  return sizes;
}

std::size_t sum(const indices& sizes) {
  std::size_t total = 0;
  for (const auto size : sizes)
    total += size;
  return total;
}

/// As many shards as there must be; where hosts are named, as many as they can hold.
std::size_t count_shards(const cluster_file& file, std::size_t workers) {
  const std::size_t fanout = file.arbitrator.fanout;
  auto shards = divide_up(workers, fanout);
  while (shards < workers && sum(level_sizes(shards + 1, fanout)) <= file.arbitrator.shards.size())
    ++shards;
  return shards;
}

/// Nodes without hosts: `sizes` from the shards up, each level spread evenly over the one above.
std::vector<tree_node> lay_out(const indices& sizes, std::uint32_t workers) {
  std::vector<tree_node> nodes(1);
  nodes[0].workers = workers;
  std::size_t above = 0; // first node of the level above
  std::size_t parents = 1;
  for (std::size_t level = sizes.size(); level-- > 0;) {
    const auto first = nodes.size();
    for (std::size_t i = 0; i < sizes[level]; ++i) {
      const auto parent = ((i + 1) * parents - 1) / sizes[level]; // the last whose share begins at i or before
      nodes.push_back({.host = {},
                       .parent = above + parent,
                       .level = static_cast<std::uint32_t>(sizes.size() - level),
                       .children = {}});
      nodes[above + parent].children.push_back(nodes.size() - 1);
    }
    above = first;
    parents = sizes[level];
  }
  for (std::size_t i = 0; i < parents; ++i) {
    auto& shard = nodes[above + i];
    shard.first_rank = static_cast<std::uint32_t>(i * workers / parents);
    shard.workers = static_cast<std::uint32_t>((i + 1) * workers / parents) - shard.first_rank;
  }
  for (std::size_t i = above; i-- > 1;) {
    nodes[i].first_rank = nodes[nodes[i].children.front()].first_rank;
    nodes[i].workers = 0;
    for (const auto child : nodes[i].children)
      nodes[i].workers += nodes[child].workers;
  }
  return nodes;
}

/// Puts every node but the root on a host of its own: the first free one of its workers', else any. From the shards up.
bool place(const cluster_file& file, std::vector<tree_node>& nodes) {
  const auto workers = file.workers();
  std::set<std::string> taken;
  const auto take = [&](tree_node& node, std::size_t first, std::size_t last) {
    for (auto rank = first; rank < last && node.host.empty(); ++rank)
      if (!workers[rank]->has(role::arbitrator) && taken.insert(workers[rank]->name).second)
        node.host = workers[rank]->name;
  };
  for (std::size_t i = nodes.size(); i-- > 1;)
    take(nodes[i], nodes[i].first_rank, nodes[i].first_rank + nodes[i].workers);
  for (std::size_t i = nodes.size(); i-- > 1;)
    take(nodes[i], 0, workers.size());
  return std::ranges::none_of(nodes, [](const auto& node) { return node.host.empty(); });
}

/// The same on the hosts that the file names: the shards in their order, then the levels above.
void place_as_named(const std::vector<std::string>& named, std::vector<tree_node>& nodes) {
  std::size_t next = 0;
  for (std::uint32_t level = nodes.back().level; level > 0; --level)
    for (auto& node : nodes)
      if (node.level == level)
        node.host = named[next++];
}

} // namespace

std::size_t tree_plan::find(const std::string& host) const {
  return static_cast<std::size_t>(std::ranges::find(nodes, host, &tree_node::host) - nodes.begin());
}

std::size_t tree_plan::shard_of(std::uint32_t rank) const {
  std::size_t node = 0;
  while (!nodes[node].children.empty()) {
    const auto& children = nodes[node].children;
    const auto below = std::ranges::find_if(children, [&](auto child) {
      return rank >= nodes[child].first_rank && rank < nodes[child].first_rank + nodes[child].workers;
    });
    if (below == children.end())
      return 0;
    node = *below;
  }
  return node;
}

std::vector<std::size_t> tree_plan::places_for_worker(std::uint32_t rank) const {
  const auto home = shard_of(rank);
  if (home == 0)
    return {0};
  std::vector<std::size_t> places;
  const auto& siblings = nodes[nodes[home].parent].children;
  const auto own = std::ranges::find(siblings, home) - siblings.begin();
  for (std::size_t i = 0; i < siblings.size(); ++i)
    places.push_back(siblings[(static_cast<std::size_t>(own) + i) % siblings.size()]);
  places.push_back(0);
  return places;
}

std::vector<std::size_t> tree_plan::places_for_node(std::size_t node) const {
  std::vector<std::size_t> places;
  while (node != 0) {
    node = nodes[node].parent;
    places.push_back(node);
  }
  return places;
}

tree_plan plan_tree(const cluster_file& file) {
  tree_plan plan;
  const auto workers = static_cast<std::uint32_t>(file.workers().size());
  plan.nodes = {{.host = file.arbitrator_host().name, .workers = workers, .children = {}}};
  const auto& arbitrator = file.arbitrator;
  if (arbitrator.topology != arbitration_topology::tree || workers <= arbitrator.fanout)
    return plan;
  const auto sizes = level_sizes(count_shards(file, workers), arbitrator.fanout);
  const auto& named = arbitrator.shards;
  auto nodes = lay_out(sizes, workers);
  nodes[0].host = plan.nodes[0].host;
  const auto wanted = std::to_string(nodes.size() - 1);
  if (named.empty() ? !place(file, nodes) : named.size() < nodes.size() - 1) {
    plan.error = named.empty()
                     ? fmt::format("a tree of fanout {} needs {} workers' hosts beside the arbitrator's, one a shard; "
                                   "raise arbitrator.fanout",
                                   arbitrator.fanout, wanted)
                     : fmt::format("arbitrator.shards names {} hosts, but {} workers with a fanout of {} need {}",
                                   named.size(), workers, arbitrator.fanout, wanted);
    return plan;
  }
  if (!named.empty())
    place_as_named(named, nodes);
  plan.nodes = std::move(nodes);
  plan.depth = static_cast<std::uint32_t>(sizes.size()) + 1;
  return plan;
}

} // namespace dynamix::cluster
