/// The aggregator's part that takes workers in.

#include "actors/aggregator_members.hpp"
#include "actors/aggregator_tree.hpp"
#include "actors/packing.hpp"

#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>

#include <algorithm>

namespace dynamix::actors::aggregating {

namespace {

/// The leader before may have kept decisions and died before it sent them to all.
void send_kept_decision(pointer self, const messages::hello& hello, std::uint32_t rank) {
  const auto& before = self->state.options.before;
  if (!before || hello.generation != before->generation.generation || !(hello.last_decision < before->newest_key))
    return;
  const auto found = std::ranges::find(before->decisions, rank, &messages::decision::rank);
  if (found != before->decisions.end() && found->generation == hello.generation)
    self->send(self->state.workers[rank], atom::decide_v, pack(*found));
}

void connect(pointer self, std::uint32_t rank, const worker_actor& caller) {
  auto& known = self->state.workers[rank];
  if (known == caller)
    return;
  if (known)
    self->demonitor(known.address());
  known = caller;
  self->monitor(caller);
}

/// Of a generation that was formed by an arbitrator before this one: all of its members are waited for.
void adopt_windows(pointer self) {
  auto& state = self->state;
  if (state.windows && state.windows->generation() == state.members->generation())
    return;
  state.windows.emplace(state.members->generation(), window_after(self, state.members->state().first_steps));
  if (state.options.tree()) // its shards say who is there
    return;
  for (const auto rank : state.members->state().placed)
    if (state.members->state().members[rank].state == member_state::awaited)
      state.windows->joined(rank);
}

/// A peer that goes on calling must not let the ledger grow: only hosts of the cluster file are told of, each once for
/// the same reason, and what cannot be true not at all.
void write_refusal(pointer self, const messages::hello& hello, const messages::welcome& welcome) {
  auto& state = self->state;
  const auto& members = state.members->state().members;
  if (std::ranges::find(members, hello.host, &member::host) == members.end() ||
      !state.members->why_implausible(hello).empty())
    return;
  if (state.refused.emplace(hello.host, welcome.verdict).second)
    write_row(self, ledger::event{"refused", hello.host, welcome.detail});
}

} // namespace

messages::welcome take_in(pointer self, const messages::hello& hello) {
  auto& state = self->state;
  const auto welcome = state.members->admit(hello, seconds_now(self));
  if (welcome.verdict != messages::welcome_verdict::accepted) {
    spdlog::warn("refused host={} detail=\"{}\"", hello.host, welcome.detail);
    write_refusal(self, hello, welcome);
    return welcome;
  }
  raise_term(self);
  if (hello.training) {
    adopt_windows(self);
    // One that comes back in a generation that is over reports nothing of this one.
    if (state.members->is_placed(welcome.rank)) {
      state.windows->reached(window_after(self, hello.steps));
      state.windows->joined(welcome.rank);
    }
  } else if (state.members->is_placed(welcome.rank)) {
    state.unsure.insert(welcome.rank);
  }
  const auto missing = state.members->count(member_state::awaited);
  const auto text = missing == 0 ? std::string{"all workers are here"}
                                 : fmt::format("waiting for {}", state.members->names(member_state::awaited));
  const bool new_here = hello.generation == 0;
  spdlog::info("{} host={} rank={} steps={} {}", new_here ? "joined" : "rejoined", hello.host, welcome.rank,
               hello.steps, text);
  write_row(self, ledger::event{new_here ? "joined" : "rejoined", hello.host, text});
  // Behind the answer: a place must not come before it.
  self->send(self, atom::look_v);
  return welcome;
}

caf::result<message<messages::welcome>, aggregator_actor> admit(pointer self, const message<messages::hello>& said,
                                                                const worker_actor& caller) {
  const auto hello = unpack<messages::hello>(said, "aggregator");
  if (!hello || !caller)
    return caf::sec::invalid_argument;
  const auto welcome = take_in(self, *hello);
  if (welcome.verdict != messages::welcome_verdict::accepted)
    return {pack(welcome), aggregator_actor{}};
  connect(self, welcome.rank, caller);
  if (self->state.stop_requested)
    self->send(caller, atom::stop_v);
  if (hello->training)
    send_kept_decision(self, *hello, welcome.rank);
  return {pack(welcome), aggregator_actor{aggregator_local{self}}};
}

} // namespace dynamix::actors::aggregating
