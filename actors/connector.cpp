#include "actors/connector.hpp"

#include "actors/handlers.hpp"
#include "cluster/cluster_file.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace dynamix::actors {

socket_descriptor::~socket_descriptor() {
  if (descriptor_ >= 0)
    ::close(descriptor_);
}

socket_descriptor probe_tcp(const std::string& address, std::uint16_t port, std::uint32_t timeout_ms) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found) != 0)
    return {};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
  socket_descriptor probe(::socket(addresses->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!probe)
    return {};
  if (::connect(probe.get(), addresses->ai_addr, addresses->ai_addrlen) == 0)
    return probe;
  pollfd waiting{.fd = probe.get(), .events = POLLOUT, .revents = 0};
  int error = errno;
  socklen_t size = sizeof error;
  if (error != EINPROGRESS || ::poll(&waiting, 1, static_cast<int>(timeout_ms)) != 1 ||
      ::getsockopt(probe.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0)
    return {};
  return probe;
}

namespace {

using pointer = connector_actor::stateful_pointer<connector_state>;

/// Whoever waits for a host that does not come is told every minute or so.
constexpr std::uint64_t attempts_per_line = 30;

void retry(pointer self) {
  auto& state = self->state;
  state.delay_seconds =
      std::clamp(state.delay_seconds * 2, state.options.first_delay_seconds, state.options.longest_delay_seconds);
  self->delayed_send(self, to_milliseconds(state.delay_seconds), atom::attempt_v);
}

void attempt(pointer self) {
  auto& state = self->state;
  const auto& options = state.options;
  if (state.attempts++ % attempts_per_line == 0)
    spdlog::info("connecting to={} address={}:{}", options.host, options.address, options.port);
  if (!cluster::is_loopback(options.address)) {
    state.probe = probe_tcp(options.address, options.port, options.probe_timeout_ms);
    if (!state.probe)
      return retry(self);
  }
  auto reached = self->system().middleman().remote_actor<gateway_actor>(options.address, options.port);
  if (!reached) {
    spdlog::debug("connect_failed to={} error=\"{}\"", options.host, to_text(reached.error()));
    return retry(self);
  }
  state.attempts = 0;
  state.delay_seconds = 0;
  self->monitor(*reached);
  self->send(state.worker, atom::connected_v, *reached);
}

} // namespace

connector_actor::behavior_type connector(pointer self, connector_options options, worker_local worker) {
  install_handlers(self, connector_state::name);
  self->state.options = std::move(options);
  self->state.worker = std::move(worker);
  self->set_down_handler([self](const caf::down_msg&) {
    self->send(self->state.worker, atom::lost_v);
    retry(self);
  });
  self->send(self, atom::attempt_v);
  return {[self](atom::attempt) { attempt(self); }};
}

} // namespace dynamix::actors
