#pragma once

#include "actors/host_events.hpp"
#include "actors/interfaces.hpp"

#include <memory>
#include <optional>
#include <string>

namespace dynamix::actors {

/// The door of a host: the one published actor. Passes hellos to the aggregator, or refuses them where there is none.
struct gateway_state {
  static constexpr const char* name = actor_name::gateway;
  gateway_state() = default; // not an aggregate: CAF would initialise its first member with the actor
  greeter_actor greeter;
  attacher_actor attacher;           ///< of a tree of arbitrators
  std::optional<std::string> leader; ///< of replicas, where this host's does not lead; empty: not known
};

struct gateway_options {
  std::string host;
  bool arbitrates = false; ///< this host has an aggregator, if not yet or not now; callers then try again
  bool in_tree = false;    ///< that takes arbitrators in, and a shard beside it, which needs not lead, takes workers
};

/// `events` is told when the replica that leads says that the run is over.
gateway_local::behavior_type gateway(gateway_local::stateful_pointer<gateway_state> self, gateway_options options,
                                     std::shared_ptr<host_events> events);

struct store_state {
  static constexpr const char* name = actor_name::store;
};

/// Serves the table through which a process group of so many workers meets.
store_actor::behavior_type store(store_actor::stateful_pointer<store_state> self, std::size_t workers);

} // namespace dynamix::actors
