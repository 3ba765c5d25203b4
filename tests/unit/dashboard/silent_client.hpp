#pragma once

#include "tests/loopback_address.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <sys/socket.h>
#include <unistd.h>

namespace dynamix::dashboard::testing {

/// Asks, and never reads the answer.
class silent_client {
public:
  silent_client(std::uint16_t port, const std::string& request) : descriptor_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const int little = 4096;
    ::setsockopt(descriptor_, SOL_SOCKET, SO_RCVBUF, &little, sizeof little);
    const auto address = loopback_address(port);
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
