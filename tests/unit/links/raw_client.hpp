#pragma once

/// A peer that is not a pump: bare TCP, or TLS with whatever it likes.

#include "links/certificate.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace dynamix::links::testing {

/// A TCP connection to a port of loopback, closed with its owner.
class raw_socket {
public:
  explicit raw_socket(std::uint16_t port);
  raw_socket(raw_socket&& other) noexcept;
  raw_socket(const raw_socket&) = delete;
  ~raw_socket();
  void send(const std::string& bytes) const;
  /// Waits until the other side has closed, for ten seconds at most. False if it has not. `received` gets what came.
  bool wait_for_end(std::string& received) const;
  /// Waits for a first byte, for ten seconds at most.
  bool wait_for_bytes() const;
  int get() const { return number_; }

private:
  int number_;
};

struct raw_tls {
  std::optional<credential> own = {};       ///< none: it shows no certificate
  std::optional<std::string> protocol = {}; ///< in ALPN
  int version = 0x0304;                     ///< TLS 1.3; 0x0303: TLS 1.2
};

/// What a TLS client that checks nothing gets to read before the other side closes; at most ten seconds.
std::string read_as_client(std::uint16_t port, const raw_tls& client);

/// The first byte that it gets, after which it leaves: empty where it is refused.
std::string connect_and_leave(std::uint16_t port, const raw_tls& client);

/// What a caller of a carriage gets as it is on the wire, `size` bytes at most, once it was accepted and has said
/// `introduction` in one record. Empty where it is refused; at most ten seconds.
std::string read_wire_as_caller(std::uint16_t port, const raw_tls& client, const std::string& introduction,
                                std::size_t size);

/// Of this process.
std::size_t resident_kib();

/// The first bytes of a TLS 1.3 ClientHello, which go on.
std::string client_hello_begin();

} // namespace dynamix::links::testing
