#pragma once

#include "actors/interfaces.hpp"

namespace dynamix::actors {

/// The door of a host: the one published actor. Passes hellos to the aggregator, or refuses them where there is none.
struct gateway_state {
  static constexpr const char* name = "gateway";
  gateway_state() = default; // not an aggregate: CAF would initialise its first member with the actor
  aggregator_local aggregator;
};

/// `arbitrates`: this host has an aggregator, if not yet or not now; callers then try again.
gateway_local::behavior_type gateway(gateway_local::stateful_pointer<gateway_state> self, std::string host,
                                     bool arbitrates);

/// Serves the table through which a process group meets.
store_actor::behavior_type store(store_actor::pointer self);

} // namespace dynamix::actors
