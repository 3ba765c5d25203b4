#pragma once

/// The workers of one part of a swarm, as actors. Includes no CAF.

#include "cluster/cluster_file.hpp"
#include "swarm/transport.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace dynamix::actors {

/// As whom the processes of a swarm prove themselves, from 0 on: as hosts that the file does not name.
std::string swarm_part_name(std::size_t part);

/// Workers of these ranks of the file. They share this process's connections; to the arbitrator's side each looks like
/// a worker of its own. `name` and `keys`: this process's own, with which it speaks over links; no keys: in the clear.
/// Throws std::runtime_error where the keys are not to be used.
std::unique_ptr<swarm::transport> make_swarm_transport(std::shared_ptr<const cluster::cluster_file> file,
                                                       const std::vector<std::uint32_t>& ranks, const std::string& name,
                                                       const std::string& keys, swarm::transport_events& events);

} // namespace dynamix::actors
