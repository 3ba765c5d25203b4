#pragma once

#include "cluster/cluster_file.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace dynamix::node {

/// The hosts of the file that could not listen on this machine now: their port is in use, or their address is not this
/// machine's. Another process may still take a port after this look.
std::vector<cluster::file_error> check_ports(const cluster::cluster_file& file);

/// This machine's address as a host at `address` sees it, by the routing table; empty: that is not reached.
std::string address_towards(const std::string& address, std::uint16_t port);

/// Whether a server could listen there now.
bool can_listen(const std::string& address, std::uint16_t port);

} // namespace dynamix::node
