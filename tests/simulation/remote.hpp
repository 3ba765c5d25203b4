#pragma once

/// Real actors of two simulated hosts that talk to each other. What one of them holds of the other is a proxy, as CAF
/// makes one for an actor of another process: what is sent to it goes over the connection, answers come back the same
/// way, handles in a message arrive as proxies, and those who monitor it are told when the actor or the connection is
/// gone.

#include "tests/simulation/network.hpp"

#include <caf/all.hpp>

namespace dynamix::simulation {

/// What stands at one side of the connection for an actor of the other side; the same one each time.
caf::strong_actor_ptr remote_at(simulation& world, const connection_ptr& through, side where,
                                const caf::strong_actor_ptr& target);

/// The connection is gone on this side.
void end_remotes(connection_end& end);

} // namespace dynamix::simulation
