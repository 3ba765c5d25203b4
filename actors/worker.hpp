#pragma once

#include "actors/host_events.hpp"
#include "actors/interfaces.hpp"
#include "actors/training_run.hpp"

#include <memory>
#include <string>
#include <vector>

namespace dynamix::actors {

/// A worker's life:
///
///     idle --connected--> greeting --accepted--> training --ended--> leaving --farewell taken, or refused--> ended
///                            ^  |refused            |  ^
///                            |  v                   v  |
///                            | ended            orphaned (the arbitrator is lost; the last batch sizes stand,
///                            |                      |     training goes on, the connector keeps trying)
///                            +------connected-------+
///
/// Greeting repeats with back-off while the arbitrator's host answers without deciding (its aggregator restarts).
struct worker_state {
  enum class phase : std::uint8_t { idle, greeting, training, leaving, ended };

  static constexpr const char* name = "worker";

  phase now = phase::idle;
  training_options options;
  messages::hello identity; ///< what it says of itself; the rest of a hello is filled in as it changes
  telemetry_actor telemetry;
  std::shared_ptr<host_events> events;
  gateway_actor gateway;
  aggregator_actor aggregator; ///< null while orphaned
  std::shared_ptr<training_run> run;
  double greeting_delay_seconds = 0;
  bool stop_requested = false;
  double telemetry_seconds = 0; ///< that measuring cost; known at the end

  bool orphaned() const { return !aggregator; }
  messages::hello hello() const;
  messages::farewell farewell() const;
};

/// Spawned once a host with a worker role. `identity` holds protocol, cluster, digest, host, incarnation and heartbeat.
worker_local::behavior_type worker(worker_local::stateful_pointer<worker_state> self, training_options options,
                                   messages::hello identity, std::shared_ptr<host_events> events);

} // namespace dynamix::actors
