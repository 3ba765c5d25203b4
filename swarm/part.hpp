#pragma once

#include "simulator/scenario.hpp"
#include "swarm/channel.hpp"
#include "swarm/transport.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace dynamix::swarm {

/// Makes the transport of a part, whose events go where it is told.
using make_transport = std::function<std::unique_ptr<transport>(transport_events& events)>;

/// One process of a swarm: does what the conductor says until it says finish, or goes. Every part runs the whole
/// world, which is the same in all of them, and reports for its own workers. Returns an exit code.
int run_part(const simulator::scenario& what, const std::vector<std::uint32_t>& ranks, channel& conductor,
             const make_transport& make);

} // namespace dynamix::swarm
