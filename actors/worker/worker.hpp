#pragma once

#include "actors/host_events.hpp"
#include "actors/interfaces.hpp"
#include "actors/worker/worker_training.hpp"
#include "session/worker_protocol.hpp"

#include <memory>
#include <optional>

namespace dynamix::actors {

/// Runs the worker's side of the protocol (session/worker_protocol.hpp): turns messages into its events, and its
/// effects into messages.
struct worker_state {
  static constexpr const char* name = actor_name::worker;

  std::optional<session::worker_protocol> protocol;
  training_options options;
  std::shared_ptr<host_events> events;
  std::shared_ptr<worker_training> training;
  telemetry_actor telemetry;
  connector_actor connector;
  gateway_actor gateway;       ///< null while there is none in reach
  aggregator_actor aggregator; ///< null while orphaned
  store_actor store;           ///< of the placement that was taken last
  // Came with the event under way.
  aggregator_actor answering_aggregator;
  store_actor offered_store;
};

/// Spawned once a host with a worker role.
worker_local::behavior_type worker(worker_local::stateful_pointer<worker_state> self, training_options options,
                                   session::worker_options protocol, std::shared_ptr<host_events> events);

} // namespace dynamix::actors
