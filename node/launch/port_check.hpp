#pragma once

#include "cluster/cluster_file.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dynamix::node {

/// Why a port cannot be listened at, and what to do. `sockets`: what /proc/net/tcp and /proc/net/tcp6 say.
std::string who_has_port(const std::string& sockets, std::uint16_t port);

/// What a name stands for here, in numbers, the address that is used first; nothing where it does not resolve.
std::vector<std::string> addresses_of(const std::string& name);

/// Why other machines would not reach `host`, whose address stands for `addresses` on its own machine; empty: they may.
/// Debian's installer writes such a line: "127.0.1.1 NAME".
std::string loopback_caution(const cluster::cluster_file& file, const cluster::host& host,
                             const std::vector<std::string>& addresses);

/// Why a host of the file could not listen on this machine now.
std::optional<cluster::file_error> check_port(const cluster::cluster_file& file, const cluster::host& host);

/// The hosts of the file that could not listen on this machine now: their port is in use, or their address is not this
/// machine's. Another process may still take a port after this look.
std::vector<cluster::file_error> check_ports(const cluster::cluster_file& file);

/// This machine's address as a host at `address` sees it, by the routing table; empty: that is not reached.
std::string address_towards(const std::string& address, std::uint16_t port);

/// Whether a server listens there, or at loopback where the address is every one of this machine's. Waits for at most a
/// tenth of a second.
bool answers(const std::string& address, std::uint16_t port);

/// Whether a server could listen there now.
bool can_listen(const std::string& address, std::uint16_t port);

} // namespace dynamix::node
