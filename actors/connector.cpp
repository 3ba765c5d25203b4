#include "actors/connector.hpp"

#include "actors/handlers.hpp"

#include <spdlog/spdlog.h>

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

namespace dynamix::actors {

bool probe_tcp(const std::string& address, std::uint16_t port, std::uint32_t timeout_ms) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found) != 0)
    return false;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
  const int descriptor = ::socket(addresses->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (descriptor < 0)
    return false;
  bool reached = ::connect(descriptor, addresses->ai_addr, addresses->ai_addrlen) == 0;
  pollfd waiting{.fd = descriptor, .events = POLLOUT, .revents = 0};
  if (!reached && errno == EINPROGRESS && ::poll(&waiting, 1, static_cast<int>(timeout_ms)) == 1) {
    int error = 0;
    socklen_t size = sizeof error;
    reached = ::getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
  }
  ::close(descriptor);
  return reached;
}

namespace {

using pointer = connector_actor::stateful_pointer<connector_state>;

void retry(pointer self) {
  auto& state = self->state;
  state.delay_seconds =
      std::clamp(state.delay_seconds * 2, state.options.first_delay_seconds, state.options.longest_delay_seconds);
  self->delayed_send(self, to_milliseconds(state.delay_seconds), atom::attempt_v);
}

void attempt(pointer self) {
  auto& state = self->state;
  const auto& options = state.options;
  if (state.attempts++ == 0)
    spdlog::info("connecting to={} address={}:{}", options.host, options.address, options.port);
  if (!probe_tcp(options.address, options.port, options.probe_timeout_ms))
    return retry(self);
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
