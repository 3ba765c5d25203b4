#pragma once

#include "actors/host/host.hpp"

#include <cstdint>
#include <vector>

namespace dynamix::actors {

/// Ports of everything that hosts of a cluster say to each other but gradients. Those use ports that the system picks
/// or, over links, the same ones with another priority (links/pump.hpp). Includes no CAF.
std::vector<std::uint16_t> control_ports(const host_options& options);

} // namespace dynamix::actors
