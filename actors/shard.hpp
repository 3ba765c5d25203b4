#pragma once

#include "actors/credit.hpp"
#include "actors/gather.hpp"
#include "actors/host_events.hpp"
#include "actors/interfaces.hpp"
#include "actors/roster.hpp"
#include "actors/tree_child.hpp"
#include "cluster/cluster_file.hpp"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace dynamix::actors {

struct shard_options {
  cluster::cluster_file file;
  cluster::timeouts timeouts;
  std::string host;   ///< which holds it, and by which it goes
  std::string parent; ///< the host of the one above
  std::uint64_t incarnation = 0;
  std::shared_ptr<host_events> events; ///< null: the host's end does not depend on it
};

/// An arbitrator of the tree below the root:
///
///     detached --parent's gateway reached, taken in--> attached
///        ^                                               |
///        +------ the parent is gone, or silent ----------+
///
/// A shard gathers its workers' reports and hands its arbitrator's decisions out, whether attached or not. What
/// concerns membership goes through it: hellos, farewells and absences up, places and notices down; signs of life end
/// here, and go up summed. One above shards does the same for those, and joins their windows. Attached again, it begins
/// anew, and with it its workers: then each says where it stands, and the parent knows them, whatever it knew before.
struct shard_state {
  static constexpr const char* name = "shard";

  shard_options options;
  roster workers;
  std::map<std::uint32_t, worker_actor> direct;     ///< workers of its own, by rank
  std::map<std::uint32_t, caf::actor_addr> through; ///< workers of its children, by rank
  std::vector<tree_child> children;
  std::optional<gather> windows; ///< of the newest generation
  shard_arbitrator_actor arbitrator;
  connector_actor connector;
  gateway_actor gateway;
  parent_actor parent; ///< null while detached
  bool was_attached = false;
  bool attaching = false;
  std::uint32_t refused_attaches = 0; ///< in a row
  double began_seconds = 0;
  std::uint64_t term = 0;
  std::optional<message<messages::policy_version>> policy; ///< newest version
  std::optional<message<messages::placement>> placement;   ///< newest
  credit<message<messages::shard_window>> windows_up{2};   ///< to the parent
  std::uint64_t farewells = 0;
  std::uint64_t ticks = 0;
  bool ended = false;
};

shard_local::behavior_type shard(shard_local::stateful_pointer<shard_state> self, shard_options options);

} // namespace dynamix::actors
