#include "tests/unit/replication/raw_peer.hpp"

#include "tests/loopback_address.hpp"

#include <cerrno>
#include <netinet/in.h>
#include <stdexcept>
#include <sys/socket.h>
#include <unistd.h>

namespace dynamix::replication {

raw_peer::raw_peer(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const timeval patience{.tv_sec = 60};
  ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  const auto address = loopback_address(port);
  if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    throw std::runtime_error("cannot connect");
}

raw_peer::~raw_peer() {
  ::close(socket_);
}

void raw_peer::send(const std::vector<std::uint8_t>& bytes) {
  for (std::size_t sent = 0; sent < bytes.size();) {
    const auto now = ::send(socket_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (now <= 0)
      return;
    sent += static_cast<std::size_t>(now);
  }
}

bool raw_peer::hung_up() {
  std::uint8_t byte = 0;
  while (true) {
    const auto got = ::recv(socket_, &byte, 1, 0);
    if (got == 0 || (got < 0 && errno == ECONNRESET))
      return true;
    if (got < 0 && errno != EINTR) // what a newer libuv has the kernel do interrupts the thread that began it
      return false;
  }
}

raw_listener::raw_listener(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  auto address = loopback_address(port);
  socklen_t size = sizeof address;
  if (::bind(socket_, reinterpret_cast<const sockaddr*>(&address), size) != 0 || ::listen(socket_, 16) != 0 ||
      ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    ::close(socket_);
    throw std::runtime_error("cannot listen");
  }
  port_ = ntohs(address.sin_port);
}

raw_listener::~raw_listener() {
  ::close(socket_);
}

} // namespace dynamix::replication
