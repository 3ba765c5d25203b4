#pragma once

#include "bpf/network.h"
#include "tests/loopback_address.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <linux/sockios.h>
#include <stdexcept>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace dynamix::telemetry {

/// A socket at `port` of loopback, 0: any that is free, and the port that it has. Several may be bound to one as long
/// as none listens.
inline int bound_socket(std::uint16_t port, std::uint16_t& number) {
  const int bound = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  ::setsockopt(bound, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  auto address = loopback_address(port);
  socklen_t length = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(bound, generic, length) != 0 || getsockname(bound, generic, &length) != 0)
    throw std::runtime_error("no port");
  number = ntohs(address.sin_port);
  return bound;
}

/// A port of loopback that is nobody's connection's until this ends; a `loopback_connection` may listen at it.
class reserved_port {
public:
  reserved_port() : bound_(bound_socket(0, number_)) {}
  reserved_port(const reserved_port&) = delete;
  reserved_port& operator=(const reserved_port&) = delete;
  ~reserved_port() { close(bound_); }
  std::uint16_t number() const { return number_; }

private:
  std::uint16_t number_ = 0; // before the socket, which sets it
  int bound_;
};

/// Both ends of one TCP connection over loopback, in this process.
class loopback_connection {
public:
  /// `port` of the server's end; 0: any that is free.
  explicit loopback_connection(std::uint16_t port = 0) {
    std::uint16_t number = 0;
    const int listener = bound_socket(port, number);
    const auto address = loopback_address(number);
    client_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listen(listener, 1) != 0 || connect(client_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
      throw std::runtime_error("no loopback connection");
    server_ = accept(listener, nullptr, nullptr);
    close(listener);
  }
  loopback_connection(loopback_connection&& other) noexcept
      : client_(std::exchange(other.client_, -1)), server_(std::exchange(other.server_, -1)) {}
  ~loopback_connection() { shut(); }

  /// Sends `bytes` from the client to the server and reads them all.
  void transfer(std::size_t bytes) const {
    std::thread sender([this, bytes] {
      const std::vector<char> chunk(1 << 16);
      for (std::size_t sent = 0; sent < bytes;) {
        const ssize_t written = send(client_, chunk.data(), std::min(chunk.size(), bytes - sent), MSG_NOSIGNAL);
        ASSERT_GT(written, 0);
        sent += static_cast<std::size_t>(written);
      }
    });
    std::vector<char> buffer(1 << 16);
    for (std::size_t received = 0; received < bytes;) {
      const ssize_t got = recv(server_, buffer.data(), buffer.size(), 0);
      ASSERT_GT(got, 0);
      received += static_cast<std::size_t>(got);
    }
    sender.join();
    await_acknowledgement();
  }

  /// Ends it with a reset, which both ends have seen afterwards.
  void abort() {
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(client_, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    close(std::exchange(client_, -1));
    char byte = 0;
    EXPECT_EQ(recv(server_, &byte, 1, 0), -1);
    EXPECT_EQ(errno, ECONNRESET);
    shut();
  }

  /// From now on both ends say what it is for.
  void carry_gradients() const {
    const int priority = gradient_priority;
    for (const int end : {client_, server_})
      ASSERT_EQ(::setsockopt(end, SOL_SOCKET, SO_PRIORITY, &priority, sizeof(priority)), 0);
  }

  int client() const { return client_; }
  int server() const { return server_; }

  std::uint16_t server_port() const {
    sockaddr_in address{};
    socklen_t length = sizeof(address);
    getsockname(server_, reinterpret_cast<sockaddr*>(&address), &length);
    return ntohs(address.sin_port);
  }

  void shut() {
    for (int* end : {&client_, &server_})
      if (*end >= 0)
        close(std::exchange(*end, -1));
  }

private:
  /// The last one may be delayed, and until then the kernel does not count what it is for.
  void await_acknowledgement() const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    int unacknowledged = 1;
    while (unacknowledged > 0 && std::chrono::steady_clock::now() < end) {
      ASSERT_EQ(::ioctl(client_, SIOCOUTQ, &unacknowledged), 0);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(unacknowledged, 0);
  }

  int client_ = -1;
  int server_ = -1;
};

} // namespace dynamix::telemetry
