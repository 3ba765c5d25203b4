#pragma once

#include "actors/credit.hpp"
#include "actors/host_events.hpp"
#include "actors/interfaces.hpp"
#include "actors/leave.hpp"
#include "actors/progress_watch.hpp"
#include "actors/training_run.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace dynamix::actors {

/// A worker's life:
///
///     idle --connected--> greeting --accepted--> waiting --placed--> training --ended--> leaving --> ended
///                            |refused               ^                    |
///                            v                      +---- hello ---------+ its generation ended or regroups
///                          ended
///
/// Beside it, the arbitrator may be lost at any time (orphaned): the last batch sizes stand, training goes on, the
/// connector keeps trying, and a hello follows each connect. Greeting repeats with back-off while the arbitrator's host
/// answers without deciding (its aggregator restarts, or it is not the leader).
struct worker_state {
  enum class phase : std::uint8_t { idle, greeting, waiting, training, leaving, ended };

  static constexpr const char* name = "worker";

  phase now = phase::idle;
  training_options options;
  messages::hello identity; ///< what it says of itself; the rest of a hello is filled in as it changes
  telemetry_actor telemetry;
  std::shared_ptr<host_events> events;
  connector_actor connector;
  gateway_actor gateway;
  aggregator_actor aggregator; ///< null while orphaned
  std::shared_ptr<training_run> run;
  store_actor meeting_point; ///< of the newest place
  std::optional<progress_watch> watch;
  credit reports = credit(64); ///< to the aggregator; an answered heartbeat says that those before it have arrived
  bool greeting_under_way = false;
  std::uint64_t greetings = 0;        ///< hellos said; only the answer to the newest counts
  std::uint64_t known_generation = 0; ///< as the newest hello said that was answered
  bool known_training = false;        ///< the same
  double greeting_delay_seconds = 0;
  double duplicate_since_seconds = -1; ///< refused since then because its former process seems to be there still
  bool stop_requested = false;
  std::optional<double> leave_asked_seconds; ///< set: its host leaves, the others go on
  leave_step leaving_by = leave_step::go;    ///< newest
  std::string left_because;                  ///< set once it has parted from the others
  double telemetry_seconds = 0;              ///< that measuring cost; known at the end

  bool orphaned() const { return !aggregator; }
  /// The arbitrator knows which generation this worker was in last, and whether it trains in it.
  bool known(bool training) const;
  messages::hello hello() const;
  messages::heartbeat heartbeat() const;
  messages::farewell farewell() const;
};

/// Spawned once a host with a worker role. `identity` holds protocol, cluster, digest, host, incarnation, heartbeat and
/// the newest checkpoint's steps.
worker_local::behavior_type worker(worker_local::stateful_pointer<worker_state> self, training_options options,
                                   messages::hello identity, std::shared_ptr<host_events> events);

} // namespace dynamix::actors
