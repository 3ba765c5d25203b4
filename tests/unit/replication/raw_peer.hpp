#pragma once

#include <cstdint>
#include <vector>

namespace dynamix::replication {

/// A TCP connection to a port of loopback, by blocking calls that give up after 60 s.
class raw_peer {
public:
  explicit raw_peer(std::uint16_t port);
  raw_peer(const raw_peer&) = delete;
  ~raw_peer();
  /// A peer that has hung up is not a failure.
  void send(const std::vector<std::uint8_t>& bytes);
  /// Waits for the end of the connection, whatever comes before it.
  bool hung_up();

private:
  int socket_ = -1;
};

/// Listens on a free port of loopback and accepts nobody.
class raw_listener {
public:
  /// On a port of the kernel's choice, or on this one; throws if it is taken.
  explicit raw_listener(std::uint16_t port = 0);
  raw_listener(const raw_listener&) = delete;
  ~raw_listener();
  std::uint16_t port() const { return port_; }

private:
  int socket_ = -1;
  std::uint16_t port_ = 0;
};

} // namespace dynamix::replication
