#include "links/inner_listener.hpp"

#include "links/sockets.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <netinet/in.h>
#include <poll.h>
#include <string_view>
#include <sys/socket.h>
#include <system_error>
#include <tuple>
#include <unistd.h>

namespace dynamix::links {
namespace {

using place = std::tuple<in_addr_t, in_port_t>;

/// One end of an IPv4 connection, by getsockname or getpeername; zeros where the descriptor is none.
template <class Ask>
place place_of(int descriptor, Ask ask) {
  sockaddr_storage found{};
  socklen_t size = sizeof found;
  if (ask(descriptor, reinterpret_cast<sockaddr*>(&found), &size) != 0 || found.ss_family != AF_INET)
    return {};
  const auto& ipv4 = reinterpret_cast<const sockaddr_in&>(found);
  return {ipv4.sin_addr.s_addr, ipv4.sin_port};
}

/// Whether the other end of an accepted connection is a socket of this process.
bool is_own(int accepted) {
  const auto here = place_of(accepted, ::getsockname);
  const auto there = place_of(accepted, ::getpeername);
  std::error_code error; // descriptors come and go
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end; !error && entry != end;
       entry.increment(error)) {
    const auto name = entry->path().filename().string();
    int other = -1;
    std::from_chars(name.data(), name.data() + name.size(), other);
    if (other >= 0 && place_of(other, ::getsockname) == there && place_of(other, ::getpeername) == here)
      return there != place{};
  }
  return false;
}

std::string last_failure() {
  return std::generic_category().message(errno);
}

} // namespace

std::string socket_address(std::uint32_t address, std::uint16_t port) {
  sockaddr_storage storage{};
  auto& ipv4 = reinterpret_cast<sockaddr_in&>(storage);
  ipv4.sin_family = AF_INET;
  ipv4.sin_port = htons(port);
  ipv4.sin_addr.s_addr = htonl(address);
  return {reinterpret_cast<const char*>(&storage), sizeof storage};
}

std::unique_ptr<inner_listener> inner_listener::open(std::uint16_t number, std::string& problem) {
  constexpr int backlog = 16;
  const auto address = inner_network << 16 | number;
  sockaddr_in own{};
  own.sin_family = AF_INET;
  own.sin_addr.s_addr = htonl(address);
  socklen_t size = sizeof own;
  descriptor made(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!made || ::bind(made.get(), reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0 ||
      ::listen(made.get(), backlog) != 0 || ::getsockname(made.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0) {
    problem = last_failure();
    return nullptr;
  }
  return std::unique_ptr<inner_listener>(new inner_listener(made.release(), address, ntohs(own.sin_port)));
}

inner_listener::~inner_listener() {
  ::close(socket_);
}

int inner_listener::take(std::chrono::milliseconds timeout, std::string& problem) const {
  using clock = std::chrono::steady_clock;
  const auto deadline = clock::now() + timeout;
  problem = "this process has not connected to it";
  for (auto left = timeout; left.count() >= 0;
       left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - clock::now())) {
    pollfd waiting{.fd = socket_, .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, static_cast<int>(left.count())) == 0)
      break;
    descriptor taken(::accept4(socket_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (taken && is_own(taken.get())) {
      prepare_tcp(taken.get());
      return taken.release();
    }
    if (!taken && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
      problem = last_failure();
      break;
    }
  }
  return -1;
}

} // namespace dynamix::links
