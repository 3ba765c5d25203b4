#pragma once

#include "cluster/cluster_file.hpp"
#include "swarm/transport.hpp"

#include <memory>
#include <vector>

namespace dynamix::benchmarks {

/// The workers of these ranks as gRPC clients of the star, by the callback API. They share their process's channels.
std::unique_ptr<swarm::transport> make_star_transport(const cluster::cluster_file& file,
                                                      const std::vector<std::uint32_t>& ranks,
                                                      swarm::transport_events& events);

} // namespace dynamix::benchmarks
