#pragma once

/// Which shards of a tree take workers, and whose each worker is: what its user's command, or the loss of a shard's
/// host, makes of it. Pure; knows no CAF and no clock.

#include "cluster/tree_plan.hpp"
#include "replication/journal.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace dynamix::actors {

using replication::shard_layout;

/// As planned: shards that stand by take nobody. `workers`: ranks of the cluster file, with its places.
shard_layout plan_layout(const cluster::tree_plan& plan, std::size_t workers, std::uint64_t cluster_digest);
/// Whether it is one of this plan.
bool is_layout_of(const shard_layout& layout, const cluster::tree_plan& plan, std::size_t workers,
                  std::uint64_t cluster_digest);
bool serves(const shard_layout& layout, std::uint32_t node);
/// The root's child through which what is said to a node goes.
std::uint32_t child_above(const cluster::tree_plan& plan, std::uint32_t node);

enum class shard_verb : std::uint8_t {
  add,   ///< a shard that stands by takes workers, whole hosts of them from the largest
  drain, ///< a shard's workers go to the others, and it stands by
  move,  ///< a shard's workers go to one that stands by
};

struct shard_command {
  shard_verb verb = shard_verb::add;
  std::string host;
  std::string to; ///< of `move`
};

/// "add ada", "drain ada", "move ada ben"; nothing: it is none of these.
std::optional<shard_command> read_command(const std::string& line);

/// What the root knows.
struct tree_view {
  const cluster::tree_plan& plan;
  const shard_layout& layout;
  std::vector<std::string> machines; ///< by rank, the host of a worker that is here or may come again; empty: none
  std::vector<std::uint32_t> at;     ///< by rank, the root's child that it comes through; 0: none, or not below it
  std::set<std::uint32_t> here;      ///< the root's children that are there
  std::uint32_t fanout = 1;
};

/// Workers that each shard has or waits for, those that have none of their own where they are.
std::map<std::uint32_t, std::uint32_t> count_workers(const tree_view& view);

struct layout_change {
  std::optional<shard_layout> layout; ///< nothing: it stays
  std::string reason;                 ///< what is done, or why nothing is
};

layout_change decide_layout(const shard_command& command, const tree_view& view);
/// A shard right below the root has been away for long. Its workers are at the others; where these have no room for
/// them, one that stands by takes its place.
layout_change replace_shard(std::uint32_t lost, const tree_view& view);

} // namespace dynamix::actors
