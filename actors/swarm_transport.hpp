#pragma once

/// The workers of one part of a swarm, as actors. Includes no CAF.

#include "cluster/cluster_file.hpp"
#include "swarm/transport.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace dynamix::actors {

/// Workers of these ranks of the file. They share this process's connections; to the arbitrator's side each looks like
/// a worker of its own.
std::unique_ptr<swarm::transport> make_swarm_transport(std::shared_ptr<const cluster::cluster_file> file,
                                                       const std::vector<std::uint32_t>& ranks,
                                                       swarm::transport_events& events);

} // namespace dynamix::actors
