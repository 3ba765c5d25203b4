#include "actors/swarm_worker.hpp"

#include "actors/greeting.hpp"
#include "actors/handlers.hpp"
#include "actors/packing.hpp"

#include <algorithm>

namespace dynamix::actors {

std::shared_ptr<const messages::placement> swarm_group::share(messages::placement placement) {
  const std::scoped_lock lock(mutex_);
  if (!newest_ || *newest_ != placement)
    newest_ = std::make_shared<const messages::placement>(std::move(placement));
  return newest_;
}

namespace {

using pointer = swarm_worker_actor::stateful_pointer<swarm_worker_state>;
using phase = swarm_worker_state::phase;
using messages::welcome_verdict;

const cluster::timeouts& timeouts_of(pointer self) {
  return self->state.group->timeouts;
}

messages::hello hello_of(const swarm_worker_state& state) {
  auto said = state.identity;
  said.generation = state.generation();
  said.last_decision = state.decisions ? state.decisions->newest() : messages::decision_key{};
  said.training = state.now == phase::training;
  if (said.training)
    said.members = state.newest->members;
  said.steps = said.attempted_steps = state.steps;
  return said;
}

void end(pointer self) {
  auto& state = self->state;
  if (state.now == phase::ended)
    return;
  state.now = phase::ended;
  state.group->events.left(state.rank);
}

void accepted(pointer self, const aggregator_actor& aggregator) {
  auto& state = self->state;
  state.greeting_delay_seconds = 0;
  if (state.aggregator != aggregator) {
    state.aggregator = aggregator;
    self->monitor(aggregator);
  }
  if (state.now != phase::greeting)
    return;
  state.now = phase::waiting;
  const auto& batch = state.group->file.batch;
  state.decisions = std::make_unique<trainer::decision_slot>(state.rank, batch.lowest, batch.highest);
}

void refused(pointer self, const messages::welcome& welcome) {
  auto& state = self->state;
  if (welcome.verdict == welcome_verdict::not_leader)
    return self->send(state.relay, atom::redirect_v, state.gateway, welcome.leader);
  if (welcome.verdict == welcome_verdict::duplicate_host || state.now == phase::training)
    return greet_later(self);
  state.group->events.failed("the arbitrator refused " + state.identity.host + ": " + welcome.detail);
}

void say_hello(pointer self) {
  auto& state = self->state;
  state.greeting_under_way = true;
  const auto number = ++state.greetings;
  const auto said = hello_of(state);
  ++state.group->hellos;
  ++state.group->sent;
  self->request(state.gateway, std::chrono::milliseconds(timeouts_of(self).request_timeout_ms), atom::hello_v,
                pack(said), worker_actor{self})
      .then(
          [self, number, training = said.training, generation = said.generation](const frame& answer,
                                                                                 const aggregator_actor& aggregator) {
            auto& state = self->state;
            ++state.group->received;
            if (number != state.greetings || state.now == phase::ended)
              return;
            state.greeting_under_way = false;
            const auto welcome = unpack<messages::welcome>(answer, "swarm_worker");
            if (!welcome)
              return greet_later(self);
            if (welcome->verdict != welcome_verdict::accepted || !aggregator)
              return refused(self, *welcome);
            accepted(self, aggregator);
            state.known_generation = generation;
            state.known_training = training;
            const bool settled = state.now > phase::training ||
                                 (generation == state.generation() && training == (state.now == phase::training));
            if (state.gateway && (!settled || state.decisions->newest().term > welcome->term))
              say_hello(self);
          },
          [self, number](const caf::error&) {
            if (number != self->state.greetings)
              return;
            self->state.greeting_under_way = false;
            greet_later(self);
          });
}

void greet(pointer self) {
  auto& state = self->state;
  const bool wanted = state.now < phase::training || (state.now == phase::training && !state.aggregator);
  if (!state.gateway || !wanted || state.greeting_under_way)
    return;
  if (state.now == phase::idle)
    state.now = phase::greeting;
  say_hello(self);
}

/// The report as this generation has it, ready to go out.
void pack_open(pointer self) {
  auto& state = self->state;
  state.open->generation = state.generation();
  state.open->decision = state.in_force;
  state.packed = pack(*state.open);
}

void send_open(pointer self) {
  auto& state = self->state;
  if (!state.aggregator || state.now != phase::training || !state.open || !state.window_ended)
    return;
  self->send(state.aggregator, atom::report_v, state.packed);
  ++state.group->sent;
  state.group->events.sent(state.rank);
}

void take_place(pointer self, const frame& received) {
  auto& state = self->state;
  ++state.group->received;
  auto place = unpack<messages::placement>(received, "swarm_worker");
  const bool fits = place && state.now == phase::waiting && place->generation > state.generation() &&
                    std::ranges::binary_search(place->members, state.rank) && !state.known_training &&
                    state.known_generation == state.generation();
  if (!fits)
    return;
  state.now = phase::training;
  state.newest = state.group->share(std::move(*place));
  state.decisions->enter_generation(state.generation());
  ++state.group->generations;
  state.group->events.placed(state.rank);
  if (!state.open)
    return;
  pack_open(self); // what the generation before left undecided
  send_open(self);
}

void generation_changes(pointer self, const frame& received) {
  auto& state = self->state;
  ++state.group->received;
  const auto notice = unpack<messages::generation_notice>(received, "swarm_worker");
  if (!notice || state.now >= phase::leaving)
    return;
  if (state.now == phase::training && notice->generation == state.generation())
    state.now = phase::waiting;
  if (state.now == phase::waiting)
    greet(self);
}

void take_decision(pointer self, const frame& received) {
  auto& state = self->state;
  ++state.group->received;
  const auto decision = unpack<messages::decision>(received, "swarm_worker");
  if (!decision || !state.decisions)
    return;
  if (state.decisions->offer(*decision) != trainer::offer_verdict::accepted) {
    ++state.group->refused;
    return;
  }
  state.decisions->applied(*decision, decision->first_step);
  state.in_force = decision->key;
  if (state.open && state.open->window <= decision->key.window)
    state.open.reset();
  ++state.group->applied;
  state.group->events.applied(*decision);
}

void prepare(pointer self, std::uint32_t index) {
  auto& state = self->state;
  state.open = state.group->reports[index];
  state.steps = state.open->first_step + state.open->training.steps;
  state.window_ended = false;
  pack_open(self);
}

void orphan(pointer self) {
  self->state.aggregator = nullptr;
}

void tick(pointer self) {
  auto& state = self->state;
  const auto& timeouts = timeouts_of(self);
  if (state.now < phase::leaving)
    self->delayed_send(self, std::chrono::milliseconds(timeouts.beat_interval_ms), atom::tick_v);
  if (!state.aggregator || !state.decisions || state.now >= phase::leaving)
    return;
  const messages::heartbeat sign{.rank = state.rank,
                                 .incarnation = state.identity.incarnation,
                                 .generation = state.now == phase::training ? state.generation() : 0,
                                 .steps = state.steps};
  ++state.group->sent;
  self->request(state.aggregator, std::chrono::milliseconds(timeouts.silence_ms), atom::beat_v, pack(sign))
      .then([self](atom::beat) { ++self->state.group->received; },
            [self, asked = state.aggregator](const caf::error&) {
              if (self->state.aggregator != asked)
                return;
              orphan(self);
              self->send(self->state.relay, atom::redirect_v, self->state.gateway, std::string{});
            });
}

/// First settles, as a worker does, so that decisions under way are counted.
void leave(pointer self) {
  auto& state = self->state;
  if (state.now >= phase::leaving)
    return;
  state.now = phase::leaving;
  if (!state.aggregator || !state.decisions)
    return end(self);
  const std::chrono::milliseconds patience(2 * timeouts_of(self).request_timeout_ms);
  auto say_farewell = [self, patience] {
    auto& state = self->state;
    if (!state.aggregator)
      return end(self);
    const messages::farewell said{.host = state.identity.host,
                                  .rank = state.rank,
                                  .succeeded = true,
                                  .reason = "the swarm's windows are done",
                                  .steps = state.steps,
                                  .decisions = state.decisions->close(),
                                  .incarnation = state.identity.incarnation};
    ++state.group->sent;
    self->request(state.aggregator, patience, atom::farewell_v, pack(said))
        .then(
            [self](atom::farewell) {
              ++self->state.group->received;
              end(self);
            },
            [self](const caf::error&) { end(self); });
  };
  ++state.group->sent;
  self->request(state.aggregator, patience, atom::settle_v)
      .then(
          [self, say_farewell](atom::settle) {
            ++self->state.group->received;
            say_farewell();
          },
          [say_farewell](const caf::error&) { say_farewell(); });
}

} // namespace

swarm_worker_actor::behavior_type swarm_worker(pointer self, std::shared_ptr<swarm_group> group,
                                               swarm_relay_actor relay, std::uint32_t rank, std::uint64_t incarnation) {
  install_handlers(self, swarm_worker_state::name);
  auto& state = self->state;
  state.group = std::move(group);
  state.relay = std::move(relay);
  state.rank = rank;
  state.identity.cluster = state.group->file.name;
  state.identity.cluster_digest = state.group->digest;
  state.identity.host = state.group->file.workers()[rank]->name;
  state.identity.incarnation = incarnation;
  state.identity.heartbeat_interval_ms = timeouts_of(self).heartbeat_interval_ms;
  self->set_down_handler([self](const caf::down_msg& down) {
    if (!self->state.aggregator || down.source != self->state.aggregator.address())
      return;
    orphan(self);
    greet(self);
  });
  // Hosts do not beat in step.
  const auto interval = timeouts_of(self).beat_interval_ms;
  self->delayed_send(self, std::chrono::milliseconds(std::uint64_t{rank} * 7919 % interval), atom::tick_v);
  return {
      [self](atom::decide, const frame& decision) { take_decision(self, decision); },
      [self](atom::place, const frame& place, const store_actor&) { take_place(self, place); },
      [self](atom::closed, const frame& notice) { generation_changes(self, notice); },
      [self](atom::connected, gateway_actor gateway) {
        self->state.gateway = std::move(gateway);
        self->state.greeting_under_way = false; // nobody answers what was said on another connection
        greet(self);
      },
      [self](atom::lost) {
        self->state.gateway = nullptr;
        orphan(self);
      },
      [self](atom::greet) { greet(self); },
      [self](atom::tick) { tick(self); },
      [self](atom::report, std::uint32_t index) { prepare(self, index); },
      [self](atom::report) {
        self->state.window_ended = true;
        send_open(self);
      },
      [self](atom::stop) { leave(self); },
  };
}

} // namespace dynamix::actors
