#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace dynamix::cluster {

/// Whether peers can connect to it: an IPv4 or IPv6 address or a host name, and no wildcard.
bool is_address(const std::string& text);
/// Whether both are one address, however it is written, also where IPv6 carries an IPv4 address; of names, one text, but
/// for localhost, which is any loopback address.
bool is_same_address(const std::string& one, const std::string& other);
/// Whether an address is this machine's own: 127.0.0.0/8, ::1 or localhost.
bool is_loopback(const std::string& address);

/// Where a server of this host listens, beside its gateway.
struct listen_address {
  std::string address;    ///< without brackets
  std::uint16_t port = 0; ///< [1, 65535]
};

/// "address:port", an IPv6 address in brackets; unlike a host's address it may be a wildcard. Nothing for other texts.
std::optional<listen_address> parse_listen_address(const std::string& text);

} // namespace dynamix::cluster
