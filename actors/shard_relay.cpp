#include "actors/shard_relay.hpp"

#include "actors/handlers.hpp"
#include "actors/packing.hpp"
#include "messages/leave.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace dynamix::actors::sharding {

namespace {

constexpr double young_seconds = 5; ///< a shard that has never been attached for so long sends workers on

std::chrono::milliseconds patience(pointer self) {
  return std::chrono::milliseconds(self->state.options.timeouts.request_timeout_ms);
}

/// No word with the root here: again in a moment, or, where that has gone on for long, at the next place.
caf::result<message<messages::welcome>, aggregator_actor> send_on(pointer self) {
  const auto& state = self->state;
  if (!state.was_attached && seconds_now(self) - state.began_seconds < young_seconds)
    return caf::sec::request_receiver_down;
  messages::welcome refusal;
  refusal.verdict = messages::welcome_verdict::not_leader;
  refusal.detail = "the shard of host " + state.options.host + " has lost its parent";
  return {pack(refusal), aggregator_actor{}};
}

/// A worker that comes in mid-training reports on the generation that it trains in.
void follow_generation(pointer self, std::uint64_t generation, std::uint32_t rank,
                       const std::vector<std::uint32_t>& members) {
  auto& state = self->state;
  if (!state.windows || state.windows->generation() < generation) {
    state.windows.emplace(generation);
    state.placement = pack(messages::placement{
        .generation = generation, .members = members, .source = members.front(), .store_prefix = "followed"});
    if (state.arbitrator)
      self->send(state.arbitrator, atom::place_v, *state.placement);
  }
  if (state.windows->generation() == generation)
    state.windows->joined(rank);
}

void remember(pointer self, const messages::hello& hello, const messages::welcome& welcome) {
  auto& state = self->state;
  state.workers.joined(welcome.rank, hello.incarnation, seconds_now(self));
  if (hello.training)
    follow_generation(self, hello.generation, welcome.rank, hello.members);
}

void join_own(pointer self, const messages::hello& hello, const messages::welcome& welcome,
              const worker_actor& caller) {
  auto& state = self->state;
  auto& known = state.direct[welcome.rank];
  if (known != caller) {
    if (known)
      self->demonitor(known.address());
    known = caller;
    self->monitor(caller);
  }
  state.through.erase(welcome.rank);
  remember(self, hello, welcome);
  spdlog::info("{} host={} rank={} steps={}", hello.generation == 0 ? "joined" : "rejoined", hello.host, welcome.rank,
               hello.steps);
}

/// The recipients of each child, and those of this shard's own.
struct split_recipients {
  std::vector<std::uint32_t> own;
  std::vector<std::pair<child_actor, messages::recipients>> below;
};

split_recipients split(pointer self, const std::vector<std::uint32_t>& ranks) {
  const auto& state = self->state;
  split_recipients result;
  for (const auto& child : state.children)
    result.below.emplace_back(child.actor, messages::recipients{});
  for (const auto rank : ranks) {
    if (state.direct.contains(rank)) {
      result.own.push_back(rank);
      continue;
    }
    const auto found = state.through.find(rank);
    if (found == state.through.end())
      continue;
    for (auto& [child, to] : result.below)
      if (child.address() == found->second)
        to.ranks.push_back(rank);
  }
  std::erase_if(result.below, [](const auto& entry) { return entry.second.ranks.empty(); });
  return result;
}

/// To workers here as it is, and through children with the ranks that it is for.
template <class Tag, class... Content>
void pass_down(pointer self, const std::vector<std::uint32_t>& to, Tag tag, const Content&... content) {
  const auto parts = split(self, to);
  for (const auto rank : parts.own)
    self->send(self->state.direct[rank], tag, content...);
  for (const auto& [child, ranks] : parts.below)
    self->send(child, tag, pack(ranks), content...);
}

} // namespace

caf::result<message<messages::welcome>, aggregator_actor> take_hello(pointer self, const message<messages::hello>& said,
                                                                     const worker_actor& caller) {
  auto& state = self->state;
  const auto hello = unpack<messages::hello>(said, "shard");
  if (!hello || !caller)
    return caf::sec::invalid_argument;
  if (!state.parent)
    return send_on(self);
  auto promise = self->make_response_promise<message<messages::welcome>, aggregator_actor>();
  self->request(state.parent, patience(self), atom::relay_v, said, child_actor{shard_local{self}})
      .then(
          [self, promise, hello = *hello, caller](const message<messages::welcome>& answer) mutable {
            const auto welcome = unpack<messages::welcome>(answer, "shard");
            const bool accepted = welcome && welcome->verdict == messages::welcome_verdict::accepted;
            if (accepted)
              join_own(self, hello, *welcome, caller);
            promise.deliver(answer, accepted ? aggregator_actor{shard_local{self}} : aggregator_actor{});
          },
          [promise](caf::error& error) mutable { promise.deliver(std::move(error)); });
  return promise;
}

caf::result<message<messages::welcome>> relay_hello(pointer self, const message<messages::hello>& said,
                                                    const child_actor& child) {
  auto& state = self->state;
  const auto hello = unpack<messages::hello>(said, "shard");
  if (!hello || !child)
    return caf::sec::invalid_argument;
  if (!state.parent)
    return caf::sec::request_receiver_down;
  auto promise = self->make_response_promise<message<messages::welcome>>();
  self->request(state.parent, patience(self), atom::relay_v, said, child_actor{shard_local{self}})
      .then(
          [self, promise, hello = *hello, child](const message<messages::welcome>& answer) mutable {
            const auto welcome = unpack<messages::welcome>(answer, "shard");
            if (welcome && welcome->verdict == messages::welcome_verdict::accepted) {
              self->state.through[welcome->rank] = child.address();
              remember(self, hello, *welcome);
            }
            promise.deliver(answer);
          },
          [promise](caf::error& error) mutable { promise.deliver(std::move(error)); });
  return promise;
}

caf::result<message<messages::welcome>, parent_actor>
take_child(pointer self, const message<messages::shard_hello>& said, const child_actor& child) {
  auto& state = self->state;
  const auto hello = unpack<messages::shard_hello>(said, "shard");
  if (!hello || !child)
    return caf::sec::invalid_argument;
  if (!state.parent)
    return caf::sec::request_receiver_down;
  auto answer = judge_child(*hello, state.options.file, state.options.timeouts);
  if (answer.verdict != messages::welcome_verdict::accepted)
    return {pack(answer), parent_actor{}};
  adopt(self, child, hello->node);
  answer.term = state.term;
  spdlog::info("shard_attached host={}", hello->node);
  return {pack(answer), parent_actor{shard_local{self}}};
}

void relay_placement(pointer self, const message<messages::recipients>& to,
                     const message<messages::placement>& received, const store_actor& store) {
  const auto recipients = unpack<messages::recipients>(to, "shard");
  const auto placement = unpack<messages::placement>(received, "shard");
  if (!recipients || !placement)
    return;
  for (const auto rank : recipients->ranks)
    follow_generation(self, placement->generation, rank, placement->members);
  pass_down(self, recipients->ranks, atom::place_v, received, store);
}

void relay_notice(pointer self, const message<messages::recipients>& to,
                  const message<messages::generation_notice>& notice) {
  if (const auto recipients = unpack<messages::recipients>(to, "shard"))
    pass_down(self, recipients->ranks, atom::closed_v, notice);
}

void relay_decisions(pointer self, const message<messages::recipients>& to,
                     const message<messages::decision>& decision) {
  if (const auto recipients = unpack<messages::recipients>(to, "shard"))
    pass_down(self, recipients->ranks, atom::decide_v, decision);
}

void relay_guidance(pointer self, const message<messages::guidance>& received) {
  auto& state = self->state;
  if (state.arbitrator)
    self->send(state.arbitrator, atom::guide_v, received);
  if (state.children.empty())
    return;
  const auto known = unpack<messages::guidance>(received, "shard");
  if (!known)
    return;
  guide_children(self, *known, state.through, [](const tree_child& child) { return child.actor.address(); });
}

void relay_stop(pointer self) {
  for (const auto& [rank, worker] : self->state.direct)
    self->send(worker, atom::stop_v);
  for (const auto& child : self->state.children)
    self->send(child.actor, atom::stop_v);
}

caf::result<atom::farewell> relay_farewell(pointer self, const message<messages::farewell>& said) {
  const auto farewell = unpack<messages::farewell>(said, "shard");
  if (!farewell)
    return caf::sec::invalid_argument;
  if (!self->state.parent)
    return caf::sec::request_receiver_down;
  auto promise = self->make_response_promise<atom::farewell>();
  self->request(self->state.parent, patience(self), atom::farewell_v, said)
      .then(
          [self, promise, farewell = *farewell](atom::farewell) mutable {
            auto& state = self->state;
            if (state.workers.holds_other(farewell.rank, farewell.incarnation)) {
              promise.deliver(atom::farewell_v);
              return;
            }
            state.farewells += messages::tells_leave(farewell) ? 0 : 1;
            state.workers.left(farewell.rank);
            state.through.erase(farewell.rank);
            if (const auto own = state.direct.find(farewell.rank); own != state.direct.end()) {
              self->demonitor(own->second.address());
              state.direct.erase(own);
            }
            if (state.windows)
              pass_on(self, farewell.succeeded ? state.windows->finished(farewell.rank, seconds_now(self))
                                               : state.windows->left(farewell.rank, seconds_now(self)));
            promise.deliver(atom::farewell_v);
          },
          [promise](caf::error& error) mutable { promise.deliver(std::move(error)); });
  return promise;
}

void forget(pointer self, std::uint32_t rank) {
  auto& state = self->state;
  state.workers.left(rank);
  state.direct.erase(rank);
  state.through.erase(rank);
  if (state.windows)
    pass_on(self, state.windows->left(rank, seconds_now(self)));
  if (state.arbitrator)
    self->send(state.arbitrator, atom::lost_v, rank);
}

void pass_on(pointer self, const std::vector<closed_window>& closed) {
  for (const auto& window : closed) {
    if (window.reports.empty())
      continue;
    if (self->state.arbitrator)
      self->send(self->state.arbitrator, atom::shard_v, pack(static_cast<const messages::shard_report&>(window)));
    else if (window.choices.size() == window.reports.size())
      send_up(self, pack(window.joined()));
  }
}

namespace {

void send_now(pointer self, message<messages::shard_window> window) {
  const auto answered = [self, asked = self->state.parent] {
    if (self->state.parent != asked)
      return;
    if (auto next = self->state.windows_up.answered(1))
      send_now(self, std::move(*next));
  };
  self->request(self->state.parent, patience(self), atom::window_v, std::move(window))
      .then([answered](atom::window) { answered(); }, [answered](const caf::error&) { answered(); });
}

} // namespace

void send_up(pointer self, message<messages::shard_window> window) {
  if (!self->state.parent)
    return;
  if (auto now = self->state.windows_up.offer(std::move(window)))
    send_now(self, std::move(*now));
}

} // namespace dynamix::actors::sharding
