#pragma once

/// Connections within one process, for a library that knows nothing but TCP. They stay on the machine, at addresses of
/// 127.77.0.0/16, which tell them from connections of the network.

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace dynamix::links {

/// The upper half of those addresses, in host order.
constexpr std::uint32_t inner_network = 0x7f4d;

/// The bytes of a `sockaddr_storage` with an IPv4 address, given in host order, and a port.
std::string socket_address(std::uint32_t address, std::uint16_t port);

class inner_listener {
public:
  /// Listens at 127.77.X.Y, whose lower half is `number`, and a port that is free. Null, with the reason, where there
  /// is no descriptor or port left.
  static std::unique_ptr<inner_listener> open(std::uint16_t number, std::string& problem);
  ~inner_listener();
  inner_listener(const inner_listener&) = delete;
  inner_listener& operator=(const inner_listener&) = delete;

  std::uint32_t address() const { return address_; } ///< IPv4, in host order
  std::uint16_t port() const { return port_; }

  /// The connection that this process has made, whose descriptor the caller closes; -1 with the reason where none comes
  /// within `timeout`. Connections of other processes are closed before a byte of them is read.
  int take(std::chrono::milliseconds timeout, std::string& problem) const;

private:
  inner_listener(int socket, std::uint32_t address, std::uint16_t port)
      : socket_(socket), address_(address), port_(port) {}

  int socket_;
  std::uint32_t address_;
  std::uint16_t port_;
};

} // namespace dynamix::links
