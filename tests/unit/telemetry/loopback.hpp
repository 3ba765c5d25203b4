#pragma once

#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <cstdint>
#include <stdexcept>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace dynamix::telemetry {

/// Both ends of one TCP connection over loopback, in this process.
class loopback_connection {
public:
  /// `port` of the server's end; 0: any that is free.
  explicit loopback_connection(std::uint16_t port = 0) {
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    socklen_t length = sizeof(address);
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    client_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, generic, length) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, generic, &length) != 0 || connect(client_, generic, length) != 0)
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
  int client_ = -1;
  int server_ = -1;
};

} // namespace dynamix::telemetry
