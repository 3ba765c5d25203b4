#include "links/free_port.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cstddef>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace dynamix::links {
namespace {

constexpr std::uint16_t first_port = 20'000;
constexpr std::uint16_t last_port = 32'000; ///< the kernel's own begin at 32768

bool is_free(std::uint16_t port) {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool bound = ::bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  ::close(descriptor);
  return bound;
}

/// By a Unix socket of that name, without a file, which lives as long as this process and in the same network namespace
/// as the port does.
bool reserve(std::uint16_t port) {
  const auto name = "dynamix-port-" + std::to_string(port);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::copy(name.begin(), name.end(), address.sun_path + 1);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const int descriptor = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (::bind(descriptor, reinterpret_cast<const sockaddr*>(&address), length) == 0)
    return true; // and stays open
  ::close(descriptor);
  return false;
}

} // namespace

std::uint16_t take_free_port() {
  static auto next = static_cast<std::uint16_t>(first_port + getpid() * 64 % (last_port - first_port));
  for (int tries = last_port - first_port; tries > 0; --tries) {
    next = next < last_port ? static_cast<std::uint16_t>(next + 1) : first_port;
    if (is_free(next) && reserve(next))
      return next;
  }
  return 0;
}

} // namespace dynamix::links
