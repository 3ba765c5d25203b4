#include "node/launch/port_check.hpp"

#include "links/sockets.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fmt/core.h>
#include <fstream>
#include <netdb.h>
#include <sstream>
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
  const int yes = 1; // connections of an earlier run that are still closing are not a listener
  if (descriptor < 0 || setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
      bind(descriptor, found->ai_addr, found->ai_addrlen) != 0 || listen(descriptor, 1) != 0)
    problem = errno;
  if (descriptor >= 0)
    close(descriptor);
  freeaddrinfo(found);
  return problem;
}

std::string contents_of(const char* path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

} // namespace

std::string who_has_port(const std::string& sockets, std::uint16_t port) {
  constexpr const char* listens = "0A"; // as the kernel numbers TCP's states
  constexpr const char* time_wait = "06";
  const auto wanted = fmt::format(":{:04X}", port);
  bool waits = false;
  bool connected = false;
  std::string line;
  for (std::istringstream lines(sockets); std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string number;
    std::string local;
    std::string remote;
    std::string state;
    if (!(fields >> number >> local >> remote >> state) || !local.ends_with(wanted))
      continue;
    if (state == listens)
      return "another process does; end it, or give a port that is free";
    waits = waits || state == time_wait;
    connected = connected || state != time_wait;
  }
  if (connected)
    return "a connection of another process has that port at its own end; give one below those that the system hands "
           "out (sysctl net.ipv4.ip_local_port_range)";
  if (waits)
    return "a connection that has ended holds that port for up to a minute; wait, or give one below those that the "
           "system hands out (sysctl net.ipv4.ip_local_port_range)";
  return "another process does; end it, or give a port that is free";
}

std::optional<cluster::file_error> check_port(const cluster::cluster_file& file, const cluster::host& host) {
  const auto key = fmt::format("host[{}].", &host - file.hosts.data());
  const auto cannot = fmt::format("host \"{}\" cannot listen at {}:{}: ", host.name, host.address, host.port);
  switch (const int problem = try_listen(host.address, host.port)) {
  case 0:
    return std::nullopt;
  case EADDRINUSE:
    return cluster::error_at(file, key + "port",
                             cannot +
                                 who_has_port(contents_of("/proc/net/tcp") + contents_of("/proc/net/tcp6"), host.port));
  case EADDRNOTAVAIL:
    return cluster::error_at(file, key + "address",
                             cannot + "that is not an address of this machine; give one of its own");
  default:
    return cluster::error_at(file, key + "port", cannot + std::strerror(problem));
  }
}

std::vector<cluster::file_error> check_ports(const cluster::cluster_file& file) {
  std::vector<cluster::file_error> errors;
  for (const auto& host : file.hosts)
    if (auto error = check_port(file, host))
      errors.push_back(std::move(*error));
  return errors;
}

std::vector<std::string> addresses_of(const std::string& name) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  std::vector<std::string> addresses;
  if (getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0)
    return addresses;
  for (const auto* each = found; each != nullptr; each = each->ai_next)
    if (char text[NI_MAXHOST];
        getnameinfo(each->ai_addr, each->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0)
      addresses.emplace_back(text);
  freeaddrinfo(found);
  return addresses;
}

std::string loopback_caution(const cluster::cluster_file& file, const cluster::host& host,
                             const std::vector<std::string>& addresses) {
  const bool alone = std::ranges::all_of(
      file.hosts, [&](const auto& other) { return other.name == host.name || cluster::is_loopback(other.address); });
  if (alone || cluster::is_loopback(host.address) || addresses.empty() || !cluster::is_loopback(addresses.front()))
    return "";
  return fmt::format(
      "host \"{}\" would listen on {} alone, where no other machine reaches it: {} resolves to it here, by "
      "a line of /etc/hosts; give its address in numbers, or take the name out of that line",
      host.name, addresses.front(), host.address);
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

bool answers(const std::string& address, std::uint16_t port) {
  const auto target = address == "0.0.0.0" ? std::string("127.0.0.1") : address == "::" ? std::string("::1") : address;
  std::string ignored;
  return static_cast<bool>(links::connect_tcp(target, port, std::chrono::milliseconds(100), ignored));
}

bool can_listen(const std::string& address, std::uint16_t port) {
  return try_listen(address, port) == 0;
}

} // namespace dynamix::node
