#include "actors/network/connector.hpp"

#include "actors/handlers.hpp"
#include "actors/network/control_network.hpp"
#include "cluster/cluster_file.hpp"

#include <spdlog/spdlog.h>

#include <memory>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

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

using connector_pointer = connector_actor::stateful_pointer<connector_state>;

/// Whoever waits for hosts that do not come is told now and again.
constexpr std::size_t attempts_per_line = 120;

void attempt_later(connector_pointer self, double delay_seconds) {
  if (std::exchange(self->state.attempt_due, true))
    return;
  self->delayed_send(self, to_milliseconds(delay_seconds), atom::attempt_v);
}

/// Over a link. What is wrong is told when it changes, for a host that is not there yet is the rule at first.
gateway_actor reach_proven(connector_state& state, const connector_target& target) {
  std::string problem;
  auto reached = state.options.network->reach(target, state.options.probe_timeout_ms, problem);
  if (!reached && problem != state.problem)
    spdlog::info("link_failed to={} problem=\"{}\"", target.host, problem);
  state.problem = problem;
  return reached;
}

gateway_actor reach(connector_pointer self, const connector_target& target) {
  auto& state = self->state;
  if (target.address.empty())
    return state.local;
  if (state.options.network)
    return reach_proven(state, target);
  if (!cluster::is_loopback(target.address)) {
    state.probe = probe_tcp(target.address, target.port, state.options.probe_timeout_ms);
    if (!state.probe)
      return gateway_actor{};
  }
  auto reached = self->system().middleman().remote_actor<gateway_actor>(target.address, target.port);
  if (!reached) {
    spdlog::debug("connect_failed to={} error=\"{}\"", target.host, to_text(reached.error()));
    return gateway_actor{};
  }
  return *reached;
}

void attempt(connector_pointer self) {
  auto& state = self->state;
  state.attempt_due = false;
  if (state.reached)
    return;
  const auto& target = state.options.targets[state.next.target()];
  if (state.attempts++ % attempts_per_line < state.options.targets.size())
    spdlog::info("connecting to={} address={}:{}", target.host, target.address.empty() ? "this host" : target.address,
                 target.port);
  state.reached = reach(self, target);
  if (!state.reached)
    return attempt_later(self, state.next.failed(seconds_now(self)));
  state.next.reached();
  self->monitor(state.reached);
  for (const auto& owner : state.owners)
    self->send(owner, atom::connected_v, state.reached);
}

void lose(connector_pointer self) {
  self->state.reached = nullptr;
  for (const auto& owner : self->state.owners)
    self->send(owner, atom::lost_v);
}

/// The one that was reached does not lead: to the one that it names, or else to the next. Of several owners each may
/// say so: who is late says it of one that is reached no more.
void redirect(connector_pointer self, const std::string& leader) {
  auto& state = self->state;
  if (!state.reached || state.options.targets[state.next.target()].host == leader)
    return;
  self->demonitor(state.reached.address());
  lose(self);
  attempt_later(self, state.next.redirected(leader, seconds_now(self)));
}

} // namespace

connector_actor::behavior_type connector(connector_pointer self, connector_options options,
                                         std::vector<connected_actor> owners) {
  install_handlers(self, connector_state::name);
  auto& state = self->state;
  state.options = std::move(options);
  state.owners = std::move(owners);
  session::reconnection_options reconnecting{.hosts = {}, .first_seconds = state.options.first_seconds};
  for (const auto& target : state.options.targets)
    reconnecting.hosts.push_back(target.host);
  state.next = session::reconnection(std::move(reconnecting), seconds_now(self));
  self->set_down_handler([self](const caf::down_msg& down) {
    if (!self->state.reached || down.source != self->state.reached.address())
      return;
    lose(self);
    attempt_later(self, self->state.next.failed(seconds_now(self)));
  });
  for (const auto& owner : state.owners)
    self->send(owner, atom::serve_v, connector_actor{self});
  attempt_later(self, 0);
  return {
      [self](atom::attempt) { attempt(self); },
      [self](atom::redirect, const std::string& leader) { redirect(self, leader); },
      [self](atom::serve, gateway_actor local) {
        self->state.local = std::move(local);
        attempt_later(self, 0);
      },
  };
}

} // namespace dynamix::actors
