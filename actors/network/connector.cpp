#include "actors/network/connector.hpp"

#include "actors/handlers.hpp"
#include "actors/network/control_network.hpp"
#include "links/sockets.hpp"
#include "storage/json_text.hpp"
#include "storage/wait_for.hpp"

#include <caf/io/basp/all.hpp>
#include <spdlog/spdlog.h>

#include <array>
#include <chrono>
#include <sys/socket.h>
#include <utility>

namespace dynamix::actors {
namespace {

constexpr std::uint32_t greeting_bytes_max = 65536;

} // namespace

std::string doubt_greeting(int socket, std::uint32_t timeout_ms) {
  std::array<unsigned char, caf::io::basp::header_size> said{};
  ::ssize_t size = 0;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  while (size < static_cast<::ssize_t>(said.size())) {
    if (!storage::wait_for(socket, POLLIN, deadline))
      return size == 0 ? "what listens there says nothing: it is another program, or a host with keys"
                       : "what listens there is another program";
    const auto read = ::recv(socket, said.data() + size, said.size() - static_cast<std::size_t>(size), 0);
    if (read <= 0)
      return "what listens there ends the connection: it is another program, or a host with keys";
    size += read;
  }
  const std::uint32_t payload_bytes = std::uint32_t{said[4]} << 24 | said[5] << 16 | said[6] << 8 | said[7];
  const bool greets = said[0] == static_cast<unsigned char>(caf::io::basp::message_type::server_handshake);
  return greets && payload_bytes <= greeting_bytes_max ? "" : "what listens there is another program";
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

gateway_actor reach(connector_pointer self, const connector_target& target, std::string& problem,
                    links::connect_failure& kind) {
  auto& state = self->state;
  if (state.options.network)
    return state.options.network->reach(target, state.options.probe_timeout_ms, problem, &kind);
  state.probe = links::connect_tcp(target.address, target.port,
                                   std::chrono::milliseconds(state.options.probe_timeout_ms), problem, &kind);
  if (state.probe)
    problem = doubt_greeting(state.probe.get(), state.options.probe_timeout_ms);
  if (!problem.empty())
    return gateway_actor{};
  // By the address that has answered: of a name CAF would call the first, and wait for it as long as the system does.
  auto reached =
      self->system().middleman().remote_actor<gateway_actor>(links::peer_address(state.probe.get()), target.port);
  if (!reached)
    problem = to_text(reached.error());
  return reached ? *reached : gateway_actor{};
}

/// What is wrong is told when it changes. A host that is not there yet is the rule at first; whatever else listens at
/// its port, or a name that does not resolve, does not pass by itself.
gateway_actor reach(connector_pointer self, const connector_target& target) {
  auto& state = self->state;
  if (target.address.empty())
    return state.local;
  std::string problem;
  links::connect_failure kind{};
  auto reached = reach(self, target, problem, kind);
  if (!reached && problem != state.problem)
    spdlog::log(kind == links::connect_failure::nobody_listens ? spdlog::level::info : spdlog::level::warn,
                "link_failed to={} address={}:{} problem={}", target.host, target.address, target.port,
                storage::quoted(problem));
  state.problem = problem;
  return reached;
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
