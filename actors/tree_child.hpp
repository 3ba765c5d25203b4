#pragma once

/// What the root of a tree and an arbitrator in its middle do alike with those below them.

#include "actors/handlers.hpp"
#include "actors/interfaces.hpp"
#include "actors/packing.hpp"
#include "cluster/cluster_file.hpp"
#include "cluster/timeouts.hpp"
#include "messages/validation.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace dynamix::actors {

struct tree_child {
  child_actor actor;
  std::string host;
  double seen_seconds = 0; ///< last sign of life
  bool late = false;       ///< it has been silent for too long
};

/// Accepted, or refused with the reason: one that read another cluster file, or runs another release.
messages::welcome judge_child(const messages::shard_hello& hello, const cluster::cluster_file& file,
                              const cluster::timeouts& timeouts);

/// Takes the place of one from the same host, and is sent the policy in force.
template <class Pointer>
void adopt(Pointer self, const child_actor& child, const std::string& host) {
  auto& state = self->state;
  std::erase_if(state.children, [&](const auto& one) { return one.host == host; });
  state.children.push_back({child, host, seconds_now(self)});
  self->monitor(child);
  if (state.policy)
    self->send(child, atom::policy_v, *state.policy);
}

template <class Pointer>
void send_order(Pointer self, const child_actor& child, messages::shard_order order) {
  order.term = self->state.term;
  order.reason = messages::fit_text(order.reason);
  self->send(child, atom::order_v, pack(order));
}

/// To each child what is known of its workers: `routes` has for each rank what `route_of` makes of its child.
template <class Pointer, class Route, class RouteOf>
void guide_children(Pointer self, messages::guidance known, const std::map<std::uint32_t, Route>& routes,
                    RouteOf route_of) {
  std::map<Route, decltype(known.workers)> parts;
  for (const auto& one : std::exchange(known.workers, {}))
    if (const auto found = routes.find(one.rank); found != routes.end())
      parts[found->second].push_back(one);
  for (const auto& child : self->state.children) {
    known.workers = std::move(parts[route_of(child)]);
    self->send(child.actor, atom::guide_v, pack(known));
  }
}

} // namespace dynamix::actors
