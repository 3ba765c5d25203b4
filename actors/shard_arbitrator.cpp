#include "actors/shard_arbitrator.hpp"

#include "actors/handlers.hpp"
#include "actors/packing.hpp"
#include "messages/validation.hpp"

#include <spdlog/spdlog.h>

#include <chrono>

namespace dynamix::actors {

namespace {

using pointer = shard_arbitrator_actor::stateful_pointer<shard_arbitrator_state>;

void decide(pointer self, const message<messages::shard_report>& received) {
  const auto shard = unpack<messages::shard_report>(received, "shard_arbitrator");
  if (!shard)
    return;
  const auto began = std::chrono::steady_clock::now();
  auto verdict = self->state.judge->decide(*shard);
  for (const auto& decision : verdict.decisions)
    self->send(self->state.hub, atom::decide_v, decision.rank, pack(decision));
  verdict.window.decide_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  self->send(self->state.hub, atom::upstream_v, pack(verdict.window));
}

void adopt(pointer self, const message<messages::policy_version>& received) {
  const auto version = unpack<messages::policy_version>(received, "shard_arbitrator");
  if (!version || version->version <= self->state.judge->controller().version())
    return;
  if (const auto error = self->state.judge->adopt(*version); !error.empty())
    spdlog::error("policy_refused version={} error=\"{}\"", version->version, error);
}

} // namespace

shard_arbitrator_actor::behavior_type shard_arbitrator(pointer self, const cluster::cluster_file& file,
                                                       const std::vector<std::uint8_t>& parameters,
                                                       const shard_local& hub) {
  install_handlers(self, shard_arbitrator_state::name);
  self->state.judge.emplace(file, policy::make_controller(file, parameters));
  self->state.hub = hub;
  self->send(hub, atom::serve_v, shard_arbitrator_actor{self});
  return {
      [self](atom::shard, const message<messages::shard_report>& shard) { decide(self, shard); },
      [self](atom::guide, const message<messages::guidance>& received) {
        if (const auto known = unpack<messages::guidance>(received, "shard_arbitrator"))
          self->state.judge->follow(*known);
      },
      [self](atom::policy, const message<messages::policy_version>& version) { adopt(self, version); },
      [self](atom::place, const message<messages::placement>& received) {
        if (const auto place = unpack<messages::placement>(received, "shard_arbitrator"))
          self->state.judge->enter(place->generation, place->members);
      },
      [self](atom::term, std::uint64_t term) { self->state.judge->raise_term(term); },
      [self](atom::lost, std::uint32_t rank) { self->state.judge->forget(rank); },
      [](atom::finish) { return atom::finish_v; },
  };
}

} // namespace dynamix::actors
