#include "node/launch/port_check.hpp"

#include <cerrno>
#include <cstring>
#include <fmt/core.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

namespace dynamix::node {
namespace {

/// What binding to the address says; 0 when it goes.
int try_listen(const std::string& address, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found) != 0)
    return EADDRNOTAVAIL;
  int problem = 0;
  const int descriptor = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1; // connections of an earlier run that are still closing are no listener
  if (descriptor < 0 || setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
      bind(descriptor, found->ai_addr, found->ai_addrlen) != 0 || listen(descriptor, 1) != 0)
    problem = errno;
  if (descriptor >= 0)
    close(descriptor);
  freeaddrinfo(found);
  return problem;
}

} // namespace

std::vector<cluster::file_error> check_ports(const cluster::cluster_file& file) {
  std::vector<cluster::file_error> errors;
  for (std::size_t i = 0; i < file.hosts.size(); ++i) {
    const auto& host = file.hosts[i];
    const std::string key = fmt::format("host[{}].", i);
    const std::string place = fmt::format("{}:{}", host.address, host.port);
    const int problem = try_listen(host.address, host.port);
    if (problem == EADDRINUSE)
      errors.push_back(cluster::error_at(file, key + "port",
                                         "host \"" + host.name + "\" cannot listen on " + place +
                                             ": another process does; end it, or give a port that is free"));
    else if (problem == EADDRNOTAVAIL)
      errors.push_back(cluster::error_at(file, key + "address",
                                         "host \"" + host.name + "\" cannot listen on " + place +
                                             ": that is not an address of this machine; give one of its own"));
    else if (problem != 0)
      errors.push_back(cluster::error_at(
          file, key + "port", "host \"" + host.name + "\" cannot listen on " + place + ": " + std::strerror(problem)));
  }
  return errors;
}

std::string address_towards(const std::string& address, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM; // connecting it sends nothing
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found) != 0)
    return "";
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  char text[NI_MAXHOST] = "";
  const int descriptor = socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0 || connect(descriptor, found->ai_addr, found->ai_addrlen) != 0 ||
      getsockname(descriptor, reinterpret_cast<sockaddr*>(&own), &size) != 0 ||
      getnameinfo(reinterpret_cast<const sockaddr*>(&own), size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0)
    text[0] = '\0';
  if (descriptor >= 0)
    close(descriptor);
  freeaddrinfo(found);
  return text;
}

bool can_listen(const std::string& address, std::uint16_t port) {
  return try_listen(address, port) == 0;
}

} // namespace dynamix::node
