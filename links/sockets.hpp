#pragma once

/// TCP sockets.

#include "links/connection.hpp"

#include <chrono>
#include <cstdint>
#include <string>

namespace dynamix::links {

/// A listener, non-blocking, and the port that it has got. None, with the reason, where it cannot be had.
descriptor listen_tcp(const std::string& address, std::uint16_t port, std::uint16_t& bound, std::string& problem);

/// What kind of reason, for who decides by it; the text is for a person.
enum class connect_failure : std::uint8_t { none, nobody_listens, other };

/// A connection, non-blocking, within `timeout`, to the first of the addresses that the name stands for which accepts
/// one. None, with the reasons, where none does.
descriptor connect_tcp(const std::string& address, std::uint16_t port, std::chrono::milliseconds timeout,
                       std::string& problem, connect_failure* kind = nullptr);

/// Sends small messages at once, and notices a peer that is gone.
void prepare_tcp(int socket);

/// Ends it where bytes stay unacknowledged for so long, or unsent, since the peer takes none. Without it a connection
/// through a partition comes back only when TCP tries again, up to two minutes later.
void end_silent(int socket, std::uint32_t timeout_ms);

/// Gives it `bulk_priority`.
void mark_bulk(int socket);

/// The peer's, in numbers: what is called by it is what has answered. Empty where it cannot be told.
std::string peer_address(int socket);

/// "127.0.0.1:7000" of the peer, for a person.
std::string peer_text(int socket);

} // namespace dynamix::links
