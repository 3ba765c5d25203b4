#pragma once

/// The protocol: every actor's interface, one comment a handler. Whatever crosses a process carries
/// messages of messages/fields.def and actor handles, nothing else; only `local` interfaces carry plain values.

#include "actors/atoms.hpp"

#include <caf/all.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace dynamix::actors {

/// Of the actors that other hosts talk to: what the guard of links knows a message's receiver by.
namespace actor_name {
inline constexpr const char* gateway = "gateway";
inline constexpr const char* aggregator = "aggregator";
inline constexpr const char* worker = "worker";
inline constexpr const char* store = "store";
} // namespace actor_name

using messages::message;

/// The table through which the process group of a generation meets.
using store_actor = caf::typed_actor<
    // store_operation -> store_result. Never waits: a key that is absent is reported as such.
    caf::replies_to<atom::apply, message<messages::store_operation>>::with<message<messages::store_result>>>;

/// A worker as the arbitrator's host sees it.
using worker_actor = caf::typed_actor<
    // decision: a new batch size for this worker. Refused when stale, repeated or out of bounds.
    caf::reacts_to<atom::decide, message<messages::decision>>,
    // placement in a new generation, and the store through which it meets.
    caf::reacts_to<atom::place, message<messages::placement>, store_actor>,
    // generation_notice: the generation ends at once, or regroups; to one that waits for a place: training is over.
    caf::reacts_to<atom::closed, message<messages::generation_notice>>,
    // End training at the next agreement of the workers.
    caf::reacts_to<atom::stop>>;

/// A shard's aggregator as its workers see it.
using aggregator_actor = caf::typed_actor<
    // window_report of one worker.
    caf::reacts_to<atom::report, message<messages::window_report>>,
    // evaluation_report, from the generation's first member.
    caf::reacts_to<atom::evaluation, message<messages::evaluation_report>>,
    // heartbeat of one worker -> the arbitrator's host lives, too.
    caf::replies_to<atom::beat, message<messages::heartbeat>>::with<atom::beat>,
    // absence of the worker that says so, until its next hello. (From an arbitrator below: of any worker.)
    caf::reacts_to<atom::absent, message<messages::absence>>,
    // -> every report sent before has been judged, and the decisions on it have been sent.
    caf::replies_to<atom::settle>::with<atom::settle>,
    // farewell: the worker's last message.
    caf::replies_to<atom::farewell, message<messages::farewell>>::with<atom::farewell>>;

/// An arbitrator of a tree as the one above sees it.
using child_actor = caf::typed_actor<
    // recipients, and for each of them a placement, and the store through which it meets.
    caf::reacts_to<atom::place, message<messages::recipients>, message<messages::placement>, store_actor>,
    // recipients, and a generation_notice.
    caf::reacts_to<atom::closed, message<messages::recipients>, message<messages::generation_notice>>,
    // guidance of the newest window.
    caf::reacts_to<atom::guide, message<messages::guidance>>,
    // policy_version.
    caf::reacts_to<atom::policy, message<messages::policy_version>>,
    // shard_order.
    caf::reacts_to<atom::order, message<messages::shard_order>>,
    // All workers are to end training.
    caf::reacts_to<atom::stop>>;

/// An arbitrator of a tree as those below see it.
using parent_actor = caf::typed_actor<
    // hello of a worker, and the child that it came through -> welcome.
    caf::replies_to<atom::relay, message<messages::hello>, child_actor>::with<message<messages::welcome>>,
    // absence of a worker.
    caf::reacts_to<atom::absent, message<messages::absence>>,
    // beat_summary of a child -> the parent lives, too.
    caf::replies_to<atom::beats, message<messages::beat_summary>>::with<atom::beats>,
    // shard_window of a child -> it has arrived, the next may come.
    caf::replies_to<atom::window, message<messages::shard_window>>::with<atom::window>,
    // evaluation_report and farewell, as of a worker.
    caf::reacts_to<atom::evaluation, message<messages::evaluation_report>>,
    caf::replies_to<atom::farewell, message<messages::farewell>>::with<atom::farewell>>;

/// The one actor that a host publishes at its port.
using gateway_actor = caf::typed_actor<
    // hello and the caller -> welcome, and whom to talk to if it was accepted (else null).
    caf::replies_to<atom::hello, message<messages::hello>, worker_actor>::with<message<messages::welcome>,
                                                                               aggregator_actor>,
    // shard_hello and the caller -> welcome, and its parent if it was accepted (else null).
    caf::replies_to<atom::attach, message<messages::shard_hello>, child_actor>::with<message<messages::welcome>,
                                                                                     parent_actor>,
    // farewell of the host whose replica leads: the run is over.
    caf::replies_to<atom::finish, message<messages::farewell>>::with<atom::finish>>;

// Inside one process.

using telemetry_actor = caf::typed_actor<
    // window_report without the telemetry -> the same completed.
    caf::replies_to<atom::report, message<messages::window_report>>::with<message<messages::window_report>>,
    // -> every report before has been completed.
    caf::replies_to<atom::settle>::with<atom::settle>>;

using connector_actor = caf::typed_actor<
    // Try to connect.
    caf::reacts_to<atom::attempt>,
    // The gateway that was reached does not lead: go to this host, or, where the name is empty or unknown, to the next.
    caf::reacts_to<atom::redirect, std::string>,
    // The gateway of this very host from now on.
    caf::reacts_to<atom::serve, gateway_actor>>;

/// Whom a connector works for.
using connected_actor = caf::typed_actor<
    // The connector that works for it from now on.
    caf::reacts_to<atom::serve, connector_actor>,
    // The connector reached the arbitrator's gateway.
    caf::reacts_to<atom::connected, gateway_actor>,
    // The connector lost it; it is trying again.
    caf::reacts_to<atom::lost>>;

using worker_local = worker_actor::extend_with<connected_actor>::extend<
    // The telemetry that completes its reports from now on.
    caf::reacts_to<atom::serve, telemetry_actor>,
    // Say hello (again) to the gateway.
    caf::reacts_to<atom::greet>,
    // window_report without the telemetry, from the training thread.
    caf::reacts_to<atom::report, message<messages::window_report>>,
    // evaluation_report, from the training thread.
    caf::reacts_to<atom::evaluation, message<messages::evaluation_report>>,
    // The process that trains for it is there, and ready.
    caf::reacts_to<atom::ready>,
    // It is gone, for this reason.
    caf::reacts_to<atom::absent, std::string>,
    // Training has left a generation; worker_training::outcome tells how.
    caf::reacts_to<atom::left>,
    // Send a heartbeat.
    caf::reacts_to<atom::beat>,
    // The same now and again, and look after the training thread.
    caf::reacts_to<atom::tick>,
    // The host leaves: part from the others, which go on.
    caf::reacts_to<atom::leave>>;

/// Learns from rollouts; owns the learner's checkpoint.
using learner_actor = caf::typed_actor<
    // trajectories of one rollout -> policy_version.
    caf::replies_to<atom::learn, std::vector<message<messages::trajectory>>>::with<message<messages::policy_version>>,
    // -> the newest policy_version, for an arbitrator that was restarted.
    caf::replies_to<atom::current>::with<message<messages::policy_version>>,
    // -> the learner itself, from which another can go on.
    caf::replies_to<atom::save>::with<std::vector<std::uint8_t>>>;

/// Decides windows: of all workers, of a shard's, or, at the root of a tree, by guidance.
using arbitrator_actor = caf::typed_actor<
    // shard_report: one closed window to decide on.
    caf::reacts_to<atom::shard, message<messages::shard_report>>,
    // shard_window of all shards: to judge, and to guide them by.
    caf::reacts_to<atom::window, message<messages::shard_window>>,
    // Decide under at least this term from now on.
    caf::reacts_to<atom::term, std::uint64_t>,
    // The worker of this rank has left.
    caf::reacts_to<atom::lost, std::uint32_t>,
    // The journal has settled what this token stands for; false: it does not keep it.
    caf::reacts_to<atom::kept, std::uint64_t, bool>,
    // -> everything that was sent before has been decided and is in the ledger.
    caf::replies_to<atom::finish>::with<atom::finish>,
    // In a shard: guidance of the newest window.
    caf::reacts_to<atom::guide, message<messages::guidance>>,
    // In a shard: policy_version.
    caf::reacts_to<atom::policy, message<messages::policy_version>>,
    // In a shard: placement in a generation that it has members of.
    caf::reacts_to<atom::place, message<messages::placement>>>;

/// Takes workers in.
using greeter_actor =
    caf::typed_actor<caf::replies_to<atom::hello, message<messages::hello>,
                                     worker_actor>::with<message<messages::welcome>, aggregator_actor>>;

/// Takes arbitrators of a tree in.
using attacher_actor = caf::typed_actor<caf::replies_to<atom::attach, message<messages::shard_hello>,
                                                        child_actor>::with<message<messages::welcome>, parent_actor>>;

/// The aggregator of all workers, of a shard, or of shards.
using aggregator_local = aggregator_actor::extend_with<child_actor>::extend_with<connected_actor>::
    extend_with<greeter_actor>::extend_with<attacher_actor>::extend<
        // As a parent of shards.
        caf::replies_to<atom::relay, message<messages::hello>, child_actor>::with<message<messages::welcome>>,
        caf::replies_to<atom::beats, message<messages::beat_summary>>::with<atom::beats>,
        caf::replies_to<atom::window, message<messages::shard_window>>::with<atom::window>,
        // Look for a parent (again).
        caf::reacts_to<atom::greet>,
        // Look after the members.
        caf::reacts_to<atom::look>,
        // The same now and again, and give a sign of life.
        caf::reacts_to<atom::tick>,
        // The arbitrator that decides from now on.
        caf::reacts_to<atom::serve, arbitrator_actor>,
        // decision of the arbitrator for the worker of this rank.
        caf::reacts_to<atom::decide, std::uint32_t, message<messages::decision>>,
        // shard_window that the arbitrator has decided, for the parent.
        caf::reacts_to<atom::upstream, message<messages::shard_window>>,
        // The journal has settled what this token stands for; false: it does not keep it.
        caf::reacts_to<atom::kept, std::uint64_t, bool>,
        // At the root, a person's command about the tree -> the answer in JSON.
        caf::replies_to<atom::command, std::string>::with<std::string>,
        // The deadline of a generation's window.
        caf::reacts_to<atom::deadline, std::uint64_t, std::uint64_t>>;

using gateway_local = gateway_actor::extend<
    // Who answers hellos from now on.
    caf::reacts_to<atom::serve, greeter_actor>,
    // Who takes arbitrators of a tree in from now on.
    caf::reacts_to<atom::serve, attacher_actor>,
    // This host's replica does not lead: that one does; empty while nobody is known to.
    caf::reacts_to<atom::redirect, std::string>>;

} // namespace dynamix::actors

CAF_BEGIN_TYPE_ID_BLOCK(dynamix_actors, caf::id_block::dynamix_atoms::end)

CAF_ADD_TYPE_ID(dynamix_actors, (std::vector<dynamix::messages::message<dynamix::messages::trajectory>>))
CAF_ADD_TYPE_ID(dynamix_actors, (std::vector<std::uint8_t>))
CAF_ADD_TYPE_ID(dynamix_actors, (dynamix::actors::store_actor))
CAF_ADD_TYPE_ID(dynamix_actors, (dynamix::actors::worker_actor))
CAF_ADD_TYPE_ID(dynamix_actors, (dynamix::actors::aggregator_actor))
CAF_ADD_TYPE_ID(dynamix_actors, (dynamix::actors::gateway_actor))
CAF_ADD_TYPE_ID(dynamix_actors, (dynamix::actors::telemetry_actor))
CAF_ADD_TYPE_ID(dynamix_actors, (dynamix::actors::connector_actor))
CAF_ADD_TYPE_ID(dynamix_actors, (dynamix::actors::arbitrator_actor))
CAF_ADD_TYPE_ID(dynamix_actors, (dynamix::actors::child_actor))
CAF_ADD_TYPE_ID(dynamix_actors, (dynamix::actors::parent_actor))
CAF_ADD_TYPE_ID(dynamix_actors, (dynamix::actors::greeter_actor))
CAF_ADD_TYPE_ID(dynamix_actors, (dynamix::actors::attacher_actor))

CAF_END_TYPE_ID_BLOCK(dynamix_actors)
