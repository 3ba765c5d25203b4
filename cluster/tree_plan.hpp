#pragma once

/// The tree of arbitrators that a cluster file stands for. Pure: the same file gives the same plan on every host.

#include "cluster/cluster_file.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace dynamix::cluster {

/// One arbitrator of the tree. Every host holds at most one, so it goes by its host's name.
struct tree_node {
  std::string host;
  std::size_t parent = 0;            ///< index into the plan's nodes; the root's is its own
  std::uint32_t level = 0;           ///< 0: the root
  std::uint32_t first_rank = 0;      ///< of the workers below it, which follow each other
  std::uint32_t workers = 0;         ///< below it
  std::vector<std::size_t> children; ///< arbitrators; none: a shard, whose workers are its children
  bool stands_by = false;            ///< a shard without workers, right below the root and not among its children
  bool is_shard() const { return level > 0 && children.empty(); }
};

/// Workers in the file's order, in contiguous shards of whole hosts, as even as these allow and of at most `fanout`
/// workers where no host has more; shards under arbitrators of at most `fanout` children, up to the root. Up to
/// `fanout` workers the root is all there is. Workers without a shard of their own, who come to places of an open
/// cluster, go to the one with room; for them there are as many shards as the file's hosts can hold, up to what all
/// would need. Where hosts are left, some hold a shard that stands by, for when another is lost or its user says so:
/// one for each shard while the root has no more than `fanout` below it, and one at least; none where shards are named.
struct tree_plan {
  std::vector<tree_node> nodes;   ///< the root first, then level by level; last those that stand by
  std::vector<std::string> roots; ///< of a tree: the hosts of which one holds the root, one or as many as replicas
  std::uint32_t depth = 1;        ///< levels of arbitrators
  std::uint32_t workers_most = 0; ///< with those of an open cluster's places
  std::string error;              ///< why there is no plan; empty: there is

  bool central() const { return nodes.size() < 2; }
  /// The arbitrator that a host holds, or, where it is one of `roots`, may hold; the plan's size where it holds none.
  std::size_t find(const std::string& host) const;
  /// Where a node may be.
  std::vector<std::string> hosts_of(std::size_t node) const;
  /// The shard of a worker; the root where it has none of its own.
  std::size_t shard_of(std::uint32_t rank) const;
  /// A node's shards: itself, where it is one.
  std::vector<std::size_t> shards_below(std::size_t node) const;
  /// Where a worker looks for an arbitrator: its shard, that shard's siblings from the next one on, the root; without a
  /// shard of its own the root, then all shards. Those that stand by come last.
  std::vector<std::size_t> places_for_worker(std::uint32_t rank) const;
  /// Whether a shard is among them.
  bool may_go(std::uint32_t rank, std::size_t shard) const;
  /// Where a node looks for a parent: its own, then the one above that, up to the root.
  std::vector<std::size_t> places_for_node(std::size_t node) const;
};

/// With topology `tree` or `auto`; the central form for any other file, and under `auto` where there are too few hosts.
/// A shard is put on its first worker's host that is not an arbitrator's, a node above shards on the first that is left
/// below it, or where `arbitrator.shards` says, shards first. There is no plan when there are too few hosts.
tree_plan plan_tree(const cluster_file& file);

/// Seconds from the last report of a window to its decisions at the workers, as predicted for one core an arbitrator.
/// See benchmarks/results for the constants. A shard decides by what it knows, so levels above it cost nothing; what
/// they know of a window reaches it `guidance_seconds` later.
struct tree_latency {
  double decision_seconds = 0;
  double guidance_seconds = 0;
};
tree_latency predict_latency(const tree_plan& plan);

/// The plan as `check` and `local` print it, and as JSON.
std::string describe_tree(const tree_plan& plan);
std::string describe_tree_json(const tree_plan& plan);

} // namespace dynamix::cluster
