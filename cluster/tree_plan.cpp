#include "cluster/tree_plan.hpp"

#include "cluster/places.hpp"

#include <algorithm>
#include <fmt/core.h>
#include <iterator>
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

/// A host that the file names, with its workers, whose ranks follow each other.
struct worker_host {
  std::string name;
  std::size_t first_rank = 0;
  std::size_t workers = 0;
  bool may_hold = true; ///< an arbitrator of the tree: it does not hold the root
};

/// Places of an open cluster are nobody's yet.
std::vector<worker_host> worker_hosts(const cluster_file& file) {
  std::vector<worker_host> hosts;
  std::size_t rank = 0;
  for (const auto* worker : file.workers()) {
    if (is_place(*worker))
      break;
    if (const auto name = host_of(worker->name); hosts.empty() || hosts.back().name != name)
      hosts.push_back({.name = name, .first_rank = rank, .may_hold = !file.find(name)->has(role::arbitrator)});
    ++hosts.back().workers;
    ++rank;
  }
  return hosts;
}

/// The first ranks of so many shards, and the end. A host's workers share a connection, so they share a shard: shards
/// are of whole hosts, as even as these allow.
indices split(const std::vector<worker_host>& hosts, std::size_t shards) {
  const auto workers = hosts.back().first_rank + hosts.back().workers;
  indices bounds = {0};
  std::size_t next = 0;
  for (std::size_t i = 1; i < shards; ++i) {
    ++next;
    while (hosts[next].first_rank < i * workers / shards && next < hosts.size() - (shards - i))
      ++next;
    bounds.push_back(hosts[next].first_rank);
  }
  bounds.push_back(workers);
  return bounds;
}

std::size_t largest_part(const indices& bounds) {
  std::size_t most = 0;
  for (std::size_t i = 1; i < bounds.size(); ++i)
    most = std::max(most, bounds[i] - bounds[i - 1]);
  return most;
}

/// As many shards as there must be; where hosts are named, as many as they can hold, and of an open cluster as many as
/// its hosts can hold and all its workers will need.
std::size_t count_shards(const cluster_file& file, const std::vector<worker_host>& hosts, std::size_t workers_most) {
  const std::size_t fanout = file.arbitrator.fanout;
  const auto most = std::max(fanout, std::ranges::max(hosts, {}, &worker_host::workers).workers);
  auto shards = divide_up(hosts.back().first_rank + hosts.back().workers, fanout);
  shards = std::min(shards, hosts.size());
  while (shards < hosts.size() && largest_part(split(hosts, shards)) > most)
    ++shards;
  const auto& named = file.arbitrator.shards;
  const auto holders =
      named.empty() ? static_cast<std::size_t>(std::ranges::count(hosts, true, &worker_host::may_hold)) : named.size();
  const auto wanted = named.empty() ? divide_up(workers_most, fanout) : hosts.size();
  while (shards < std::min(wanted, hosts.size()) && sum(level_sizes(shards + 1, fanout)) <= holders)
    ++shards;
  return shards;
}

/// Nodes without hosts: `sizes` from the shards up, each level spread evenly over the one above; shards begin at
/// `bounds`.
std::vector<tree_node> lay_out(const indices& sizes, const indices& bounds) {
  std::vector<tree_node> nodes(1);
  nodes[0].workers = static_cast<std::uint32_t>(bounds.back());
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
    nodes[above + i].first_rank = static_cast<std::uint32_t>(bounds[i]);
    nodes[above + i].workers = static_cast<std::uint32_t>(bounds[i + 1] - bounds[i]);
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
bool place(const std::vector<worker_host>& hosts, std::vector<tree_node>& nodes) {
  std::set<std::string> taken;
  const auto take = [&](tree_node& node, std::size_t first, std::size_t last) {
    for (const auto& host : hosts)
      if (node.host.empty() && host.first_rank >= first && host.first_rank < last && host.may_hold &&
          taken.insert(host.name).second)
        node.host = host.name;
  };
  for (std::size_t i = nodes.size(); i-- > 1;)
    take(nodes[i], nodes[i].first_rank, nodes[i].first_rank + nodes[i].workers);
  for (std::size_t i = nodes.size(); i-- > 1;)
    take(nodes[i], 0, nodes[0].workers);
  return std::ranges::none_of(nodes, [](const auto& node) { return node.host.empty(); });
}

/// Shards that stand by, on hosts that hold nothing else.
void add_standbys(const std::vector<worker_host>& hosts, std::size_t shards, std::size_t fanout,
                  std::vector<tree_node>& nodes) {
  const auto below_root = nodes[0].children.size();
  const auto room = fanout > below_root ? fanout - below_root : 0;
  auto left = std::max<std::size_t>(1, std::min(shards, room));
  const auto planned = nodes.size();
  for (const auto& host : hosts) {
    const auto holds = std::ranges::find(nodes.begin(), nodes.begin() + static_cast<std::ptrdiff_t>(planned), host.name,
                                         &tree_node::host) != nodes.begin() + static_cast<std::ptrdiff_t>(planned);
    if (!host.may_hold || holds || left == 0)
      continue;
    nodes.push_back({.host = host.name, .level = 1, .children = {}, .stands_by = true});
    --left;
  }
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
  if (std::ranges::find(roots, host) != roots.end())
    return 0;
  return static_cast<std::size_t>(std::ranges::find(nodes, host, &tree_node::host) - nodes.begin());
}

std::vector<std::string> tree_plan::hosts_of(std::size_t node) const {
  return node == 0 && !roots.empty() ? roots : std::vector{nodes[node].host};
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

std::vector<std::size_t> tree_plan::shards_below(std::size_t node) const {
  if (nodes[node].children.empty())
    return {node};
  std::vector<std::size_t> shards;
  for (const auto child : nodes[node].children)
    std::ranges::copy(shards_below(child), std::back_inserter(shards));
  return shards;
}

std::vector<std::size_t> tree_plan::places_for_worker(std::uint32_t rank) const {
  const auto home = shard_of(rank);
  std::vector<std::size_t> places;
  if (home != 0) { // else the root knows which has room
    const auto& siblings = nodes[nodes[home].parent].children;
    const auto own = std::ranges::find(siblings, home) - siblings.begin();
    for (std::size_t i = 0; i < siblings.size(); ++i)
      places.push_back(siblings[(static_cast<std::size_t>(own) + i) % siblings.size()]);
  }
  places.push_back(0);
  if (home == 0 && !central())
    std::ranges::copy(shards_below(0), std::back_inserter(places));
  for (std::size_t node = 1; node < nodes.size(); ++node)
    if (nodes[node].stands_by)
      places.push_back(node);
  return places;
}

bool tree_plan::may_go(std::uint32_t rank, std::size_t shard) const {
  const auto home = shard_of(rank);
  return home == 0 || nodes[shard].stands_by || nodes[shard].parent == nodes[home].parent;
}

std::vector<std::size_t> tree_plan::places_for_node(std::size_t node) const {
  std::vector<std::size_t> places;
  while (node != 0) {
    node = nodes[node].parent;
    places.push_back(node);
  }
  return places;
}

namespace {

tree_plan plan_all(const cluster_file& file) {
  tree_plan plan;
  const auto hosts = worker_hosts(file);
  const auto workers = hosts.empty() ? 0U : static_cast<std::uint32_t>(hosts.back().first_rank + hosts.back().workers);
  const auto most = file.membership == membership_kind::open ? std::max(workers, file.workers_max) : workers;
  plan.nodes = {{.host = file.arbitrator_host().name, .workers = workers, .children = {}}};
  plan.workers_most = most;
  const auto& arbitrator = file.arbitrator;
  if (arbitrator.topology == arbitration_topology::central || most <= arbitrator.fanout)
    return plan;
  if (hosts.empty()) {
    plan.error = "a tree's shards stand on hosts that the file names, and it names no worker; name some, or raise "
                 "arbitrator.fanout";
    return plan;
  }
  for (const auto* host : file.arbitrators())
    plan.roots.push_back(host->name);
  const auto sizes = level_sizes(count_shards(file, hosts, most), arbitrator.fanout);
  const auto& named = arbitrator.shards;
  auto nodes = lay_out(sizes, split(hosts, sizes.front()));
  nodes[0].host = plan.nodes[0].host;
  const auto wanted = std::to_string(nodes.size() - 1);
  if (named.empty() ? !place(hosts, nodes) : named.size() < nodes.size() - 1) {
    plan.error = named.empty()
                     ? fmt::format("a tree of fanout {} needs {} workers' hosts beside the arbitrator's, one a shard; "
                                   "raise arbitrator.fanout",
                                   arbitrator.fanout, wanted)
                     : fmt::format("arbitrator.shards names {} hosts, but {} workers with a fanout of {} need {}",
                                   named.size(), workers, arbitrator.fanout, wanted);
    return plan;
  }
  if (named.empty())
    add_standbys(hosts, sizes.front(), arbitrator.fanout, nodes);
  else
    place_as_named(named, nodes);
  plan.nodes = std::move(nodes);
  plan.depth = static_cast<std::uint32_t>(sizes.size()) + 1;
  return plan;
}

} // namespace

tree_plan plan_tree(const cluster_file& file) {
  auto plan = plan_all(file);
  if (plan.error.empty() || file.arbitrator.topology != arbitration_topology::automatic)
    return plan;
  auto central = file;
  central.arbitrator.topology = arbitration_topology::central;
  return plan_all(central);
}

} // namespace dynamix::cluster
