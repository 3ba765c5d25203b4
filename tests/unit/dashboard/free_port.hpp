#pragma once

#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <cstdint>
#include <string>
#include <sys/socket.h>
#include <unistd.h>

namespace dynamix::dashboard::testing {

inline sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

/// A port of loopback that nobody listens on now, below those that the kernel gives to connections.
inline std::uint16_t free_port() {
  constexpr int first = 10'000;
  constexpr int ports = 8'000;
  static int next = ::getpid() * 16;
  for (int tries = 0; tries < ports; ++tries) {
    const auto port = static_cast<std::uint16_t>(first + next++ % ports);
    const int descriptor = ::socket(AF_INET, SOCK_STREAM, 0);
    const int yes = 1;
    ::setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    const auto address = loopback(port);
    const bool free = ::bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
                      ::listen(descriptor, 1) == 0;
    ::close(descriptor);
    if (free)
      return port;
  }
  ADD_FAILURE() << "no port is free";
  return 0;
}

/// Asks, and never reads the answer.
class silent_client {
public:
  silent_client(std::uint16_t port, const std::string& request) : descriptor_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const int little = 4096;
    ::setsockopt(descriptor_, SOL_SOCKET, SO_RCVBUF, &little, sizeof little);
    const auto address = loopback(port);
    EXPECT_EQ(::connect(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::send(descriptor_, request.data(), request.size(), 0), static_cast<ssize_t>(request.size()));
  }
  silent_client(const silent_client&) = delete;
  silent_client& operator=(const silent_client&) = delete;
  ~silent_client() { ::close(descriptor_); }

private:
  int descriptor_;
};

} // namespace dynamix::dashboard::testing
