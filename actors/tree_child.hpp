#pragma once

/// What the root of a tree and an arbitrator in its middle do alike with those below them.

#include "actors/handlers.hpp"
#include "actors/interfaces.hpp"
#include "actors/packing.hpp"
#include "cluster/cluster_file.hpp"
#include "cluster/timeouts.hpp"
#include "messages/validation.hpp"

#include <algorithm>
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

/// To each child what is known of its workers; `is_reached(rank, child)` says whose they are.
template <class Pointer, class IsReached>
void guide_children(Pointer self, const messages::guidance& known, IsReached is_reached) {
  for (const auto& child : self->state.children) {
    auto part = known;
    std::erase_if(part.workers, [&](const auto& one) { return !is_reached(one.rank, child); });
    self->send(child.actor, atom::guide_v, pack(part));
  }
}

} // namespace dynamix::actors
