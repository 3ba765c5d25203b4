#pragma once

#include "actors/host_events.hpp"
#include "actors/protocol_performer.hpp"
#include "actors/worker/worker_training.hpp"

#include <memory>

namespace dynamix::actors {

/// Runs the worker's side of the protocol (session/worker_protocol.hpp): turns messages into its events, and its
/// effects into messages.
struct worker_state : protocol_state {
  static constexpr const char* name = actor_name::worker;

  training_options options;
  std::shared_ptr<host_events> events;
  std::shared_ptr<worker_training> training;
  telemetry_actor telemetry;
  connector_actor connector;
};

/// Spawned once a host with a worker role.
worker_local::behavior_type worker(worker_local::stateful_pointer<worker_state> self, training_options options,
                                   session::worker_options protocol, std::shared_ptr<host_events> events);

} // namespace dynamix::actors
