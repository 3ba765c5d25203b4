#include "links/sockets.hpp"

#include "links/pump.hpp"
#include "storage/wait_for.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <fmt/core.h>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <system_error>
#include <utility>

namespace dynamix::links {
namespace {

constexpr int backlog = 256;
constexpr int kind = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;

using address_list = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

address_list resolve(const std::string& address, std::uint16_t port, int flags, std::string& problem) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found); error != 0) {
    problem = address + " does not resolve: " + ::gai_strerror(error);
    found = nullptr;
  }
  return {found, &::freeaddrinfo};
}

std::string failure(int error) {
  return std::generic_category().message(error);
}

/// " (127.0.1.1)", for what a name stood for; empty where it cannot be told.
std::string numeric_text(const sockaddr& address, unsigned size) {
  std::array<char, NI_MAXHOST> host{};
  return ::getnameinfo(&address, size, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) == 0
             ? fmt::format(" ({})", host.data())
             : "";
}

descriptor connect_to(const addrinfo& place, std::chrono::milliseconds timeout, int& error) {
  descriptor made(::socket(place.ai_family, kind, 0));
  error = made && ::connect(made.get(), place.ai_addr, place.ai_addrlen) == 0 ? 0 : errno;
  if (made && error == EINPROGRESS) {
    socklen_t size = sizeof error;
    if (!storage::wait_for(made.get(), POLLOUT, std::chrono::steady_clock::now() + timeout))
      error = ETIMEDOUT;
    else if (::getsockopt(made.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0)
      error = errno;
  }
  return error == 0 ? std::move(made) : descriptor{};
}

/// No word of the other machine's: this one has no way to an address of that family. One without IPv6 says so of
/// every name that has addresses of both.
bool lacks_family(int error) {
  return error == ENETUNREACH || error == EADDRNOTAVAIL || error == EAFNOSUPPORT;
}

/// Address and port of the peer, in numbers; empty where they cannot be told.
std::pair<std::string, std::string> peer_of(int socket) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &size) != 0 ||
      ::getnameinfo(reinterpret_cast<const sockaddr*>(&peer), size, host.data(), host.size(), port.data(), port.size(),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return {};
  return {host.data(), port.data()};
}

} // namespace

descriptor listen_tcp(const std::string& address, std::uint16_t port, std::uint16_t& bound, std::string& problem) {
  const auto places = resolve(address, port, AI_PASSIVE, problem);
  if (!places)
    return {};
  descriptor made(::socket(places->ai_family, kind, 0));
  const int yes = 1; // connections of an earlier process that are still closing are not a listener
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  if (!made || ::setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
      ::bind(made.get(), places->ai_addr, places->ai_addrlen) != 0 || ::listen(made.get(), backlog) != 0 ||
      ::getsockname(made.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0) {
    problem = failure(errno);
    return {};
  }
  bound = ntohs(own.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(own).sin6_port
                                          : reinterpret_cast<const sockaddr_in&>(own).sin_port);
  return made;
}

descriptor connect_tcp(const std::string& address, std::uint16_t port, std::chrono::milliseconds timeout,
                       std::string& problem, connect_failure* kind) {
  connect_failure ignored{};
  auto& failed = kind != nullptr ? *kind : ignored;
  failed = connect_failure::other;
  const auto places = resolve(address, port, 0, problem);
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  std::string problems;
  bool refused = false;
  bool failed_otherwise = false;
  for (const auto* place = places.get(); place != nullptr; place = place->ai_next) {
    // A name may stand for one address of each family: what nobody answers at leaves time for the next.
    const auto left =
        std::max(std::chrono::milliseconds::zero(),
                 std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()));
    int error = 0;
    if (auto made = connect_to(*place, place->ai_next != nullptr ? left / 2 : left, error)) {
      failed = connect_failure::none;
      return made;
    }
    refused |= error == ECONNREFUSED;
    failed_otherwise |= error != ECONNREFUSED && !lacks_family(error);
    problems += (problems.empty() ? "" : ", ") + failure(error) + numeric_text(*place->ai_addr, place->ai_addrlen);
  }
  if (places) {
    problem = problems;
    failed = refused && !failed_otherwise ? connect_failure::nobody_listens : connect_failure::other;
  }
  return {};
}

void prepare_tcp(int socket) {
  const int yes = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
}

void end_silent(int socket, std::uint32_t timeout_ms) {
  ::setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof timeout_ms);
}

void mark_bulk(int socket) {
  ::setsockopt(socket, SOL_SOCKET, SO_PRIORITY, &bulk_priority, sizeof bulk_priority);
}

std::string peer_address(int socket) {
  return peer_of(socket).first;
}

std::string peer_text(int socket) {
  const auto [host, port] = peer_of(socket);
  return host.empty() ? "an unknown address" : fmt::format("{}:{}", host, port);
}

} // namespace dynamix::links
