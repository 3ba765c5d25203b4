#pragma once

#include "actors/protocol_performer.hpp"
#include "cluster/cluster_file.hpp"
#include "swarm/transport.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace dynamix::actors {

/// A worker without a training thread: what it reports comes from a simulated host.
using swarm_worker_actor = worker_actor::extend<
    // The connector of its process reached this gateway.
    caf::reacts_to<atom::connected, gateway_actor>,
    // It lost it; it is trying again.
    caf::reacts_to<atom::lost>,
    // Say hello (again).
    caf::reacts_to<atom::greet>,
    // The same now and again: a heartbeat.
    caf::reacts_to<atom::tick>,
    // The group's report at this place is the next window's.
    caf::reacts_to<atom::report, std::uint32_t>,
    // The window has ended: it goes out.
    caf::reacts_to<atom::report>>;

/// Stands in for the workers of a process towards the one connector that they share.
using swarm_relay_actor = worker_local::extend<
    // The gateway that was reached does not lead, or is silent: as the connector's redirect. What is said of another
    // gateway than that of now is late, and counts no more.
    caf::reacts_to<atom::redirect, gateway_actor, std::string>>;

/// What the workers of a process share. Thread-safe but for `reports`, which change only between windows.
struct swarm_group {
  swarm_group(std::shared_ptr<const cluster::cluster_file> of, swarm::transport_events& told)
      : file(std::move(of)), digest(file->digest()), timeouts(cluster::derive_timeouts(file->detect_ms)), events(told) {
  }

  /// One copy of a placement for all its members here: with thousands of them each holds thousands of ranks.
  std::shared_ptr<const messages::placement> share(messages::placement placement);

  const std::shared_ptr<const cluster::cluster_file> file;
  const std::uint64_t digest;
  const cluster::timeouts timeouts;
  swarm::transport_events& events;
  std::vector<messages::window_report> reports; ///< of the next window
  std::atomic<std::uint64_t> sent = 0;
  std::atomic<std::uint64_t> received = 0;
  std::atomic<std::uint64_t> applied = 0;
  std::atomic<std::uint64_t> refused = 0;
  std::atomic<std::uint64_t> hellos = 0;
  std::atomic<std::uint64_t> generations = 0;

private:
  std::mutex mutex_;
  std::shared_ptr<const messages::placement> newest_;
};

/// Runs the same protocol as actors/worker/worker does (session/worker_protocol.hpp), but leaves a generation at once
/// when it is told that it ends or regroups. A decision is applied as soon as it comes; it holds from the step that it
/// names on.
struct swarm_worker_state : protocol_state {
  static constexpr const char* name = actor_name::worker;

  std::shared_ptr<swarm_group> group;
  swarm_relay_actor relay;
  std::uint32_t rank = 0;
  // In training's place.
  std::optional<messages::window_report> open; ///< of the newest window; none once it is decided
  message<messages::window_report> packed;     ///< the same, ready to go out
  bool window_ended = false;                   ///< it may go out
  messages::decision_key in_force;
  std::uint64_t steps = 0;
  bool finished = false; ///< the swarm's windows are done
};

swarm_worker_actor::behavior_type swarm_worker(swarm_worker_actor::stateful_pointer<swarm_worker_state> self,
                                               std::shared_ptr<swarm_group> group, swarm_relay_actor relay,
                                               std::uint32_t rank, std::uint64_t incarnation);

} // namespace dynamix::actors
