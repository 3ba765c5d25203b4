#include "actors/swarm/swarm_worker.hpp"

#include "actors/handlers.hpp"
#include "actors/packing.hpp"

#include <spdlog/spdlog.h>

#include <utility>
#include <variant>

namespace dynamix::actors {

std::shared_ptr<const messages::placement> swarm_group::share(messages::placement placement) {
  const std::scoped_lock lock(mutex_);
  if (!newest_ || *newest_ != placement)
    newest_ = std::make_shared<const messages::placement>(std::move(placement));
  return newest_;
}

namespace {

namespace events = session::events;
namespace effects = session::effects;
using swarm_worker_pointer = swarm_worker_actor::stateful_pointer<swarm_worker_state>;
using phase = session::worker_protocol::phase;

/// What happens, and all that follows from it.
void happen(swarm_worker_pointer self, session::event what);
void report_open(swarm_worker_pointer self);
void leave_generation(swarm_worker_pointer self);
void apply(swarm_worker_pointer self, const messages::decision& decision);

/// Carries effects out.
struct swarm_performer {
  swarm_worker_pointer self;
  swarm_worker_state& state = self->state;
  swarm_group& group = *state.group;

  /// A request to the aggregator that is counted both ways; `answered` is told whether it was heard.
  template <class Answer, class Answered, class... Content>
  void ask(std::uint32_t timeout_ms, Answered answered, const Content&... content) const {
    ++group.sent;
    self->request(state.aggregator, std::chrono::milliseconds(timeout_ms), content...)
        .then(
            [self = self, answered](Answer) {
              ++self->state.group->received;
              answered(true);
            },
            [answered](const caf::error&) { answered(false); });
  }

  void operator()(const effects::say_hello& what) const {
    ++group.hellos;
    ++group.sent;
    self->request(state.gateway, std::chrono::milliseconds(what.timeout_ms), atom::hello_v, pack(what.hello),
                  worker_actor{self})
        .then(
            [self = self, number = what.number](const message<messages::welcome>& answer,
                                                const aggregator_actor& aggregator) {
              ++self->state.group->received;
              std::optional<messages::welcome> welcome;
              const auto said = unpack<messages::welcome>(answer, "swarm_worker");
              if (said && (aggregator || said->verdict != messages::welcome_verdict::accepted))
                welcome = *said;
              self->state.answering_aggregator = aggregator;
              happen(self, events::hello_answered{number, std::move(welcome)});
            },
            [self = self, number = what.number](const caf::error&) {
              happen(self, events::hello_answered{number, std::nullopt});
            });
  }
  void operator()(const effects::greet_later& what) const {
    self->delayed_send(self, to_milliseconds(what.seconds), atom::greet_v);
  }
  void operator()(const effects::redirect& what) const {
    self->send(state.relay, atom::redirect_v, state.gateway, what.leader);
  }
  void operator()(const effects::follow_aggregator&) const {
    if (state.aggregator == state.answering_aggregator)
      return;
    state.aggregator = state.answering_aggregator;
    self->monitor(state.aggregator);
  }
  void operator()(const effects::forget_aggregator&) const { state.aggregator = nullptr; }
  void operator()(const effects::send_report& what) const {
    self->send(state.aggregator, atom::report_v, state.open == what.report ? state.packed : pack(what.report));
    ++group.sent;
    group.events.sent(state.rank);
  }
  void operator()(const effects::send_evaluation&) const {}
  void operator()(const effects::send_heartbeat& what) const {
    ask<atom::beat>(
        what.timeout_ms,
        [self = self, asked = state.aggregator, reports = what.reports](bool heard) {
          if (self->state.aggregator == asked) // what another aggregator did not say is not an event any more
            happen(self, events::heartbeat_answered{heard, reports});
        },
        atom::beat_v, pack(what.heartbeat));
  }
  void operator()(const effects::send_absence&) const {} // it has no external trainer
  void operator()(const effects::settle_aggregator& what) const {
    ask<atom::settle>(
        what.timeout_ms, [self = self](bool) { happen(self, events::aggregator_settled{}); }, atom::settle_v);
  }
  void operator()(const effects::say_farewell& what) const {
    ask<atom::farewell>(
        what.timeout_ms, [self = self](bool heard) { happen(self, events::farewell_answered{heard}); },
        atom::farewell_v, pack(what.farewell));
  }

  void operator()(const effects::join&) const {}
  void operator()(const effects::enter_generation&) const {
    state.store = state.offered_store;
    ++group.generations;
    group.events.placed(state.rank);
    report_open(self); // what the generation before left undecided
  }
  void operator()(const effects::ask_to_regroup&) const { leave_generation(self); }
  void operator()(const effects::interrupt&) const { leave_generation(self); }
  void operator()(const effects::ask_to_stop&) const {}
  void operator()(const effects::finish_training&) const {}

  void operator()(const effects::decision_offered& what) const {
    if (what.verdict == session::offer_verdict::accepted)
      apply(self, what.decision);
    else
      ++group.refused;
  }
  void operator()(const effects::end& what) const {
    if (!what.succeeded && !state.finished)
      group.events.failed(what.reason);
    group.events.left(state.rank);
  }
  void operator()(const effects::fail& what) const { group.events.failed(what.reason); }
  /// As thousands of workers share one log, only what is wrong.
  void operator()(const effects::log& what) const {
    if (what.level == effects::log_level::error)
      spdlog::error("rank={} {}", state.rank, what.text);
  }
};

void happen(swarm_worker_pointer self, session::event what) {
  auto& state = self->state;
  for (const auto& effect : state.protocol->handle({seconds_now(self), state.steps}, std::move(what)))
    std::visit(swarm_performer{self}, effect);
}

void apply(swarm_worker_pointer self, const messages::decision& decision) {
  auto& state = self->state;
  state.protocol->decisions()->applied(decision, decision.first_step);
  state.in_force = decision.key;
  if (state.open && state.open->window <= decision.key.window)
    state.open.reset();
  ++state.group->applied;
  state.group->events.applied(decision);
}

void leave_generation(swarm_worker_pointer self) {
  const auto steps = self->state.steps;
  happen(self,
         events::generation_left{.goes_on = true,
                                 .attempted_steps = steps,
                                 .account = {.reason = "the generation is over", .steps = steps, .decisions = {}}});
}

/// The report as this generation has it, ready to go out.
void pack_open(swarm_worker_state& state) {
  state.open->generation = state.protocol->newest().generation;
  state.open->decision = state.in_force;
  state.packed = pack(*state.open);
  state.packed.encoded(); // now, so that what is measured from the window's end on does not include it
}

void report_open(swarm_worker_pointer self) {
  auto& state = self->state;
  if (!state.open || !state.window_ended || state.protocol->now() != phase::training)
    return;
  if (state.open->generation != state.protocol->newest().generation)
    pack_open(state);
  happen(self, events::window_completed{*state.open});
}

void prepare(swarm_worker_state& state, std::uint32_t index) {
  state.open = state.group->reports[index];
  state.steps = state.open->first_step + state.open->training.steps;
  state.window_ended = false;
  pack_open(state);
}

void take_placement(swarm_worker_pointer self, const message<messages::placement>& received, const store_actor& store) {
  auto& state = self->state;
  const auto placement = unpack<messages::placement>(received, "swarm_worker");
  if (!placement)
    return;
  state.offered_store = store;
  happen(self, events::placement_received{state.group->share(*placement), store == state.store});
}

/// A message that is all there is to the event.
template <class Event, class Message>
void receive(swarm_worker_pointer self, const message<Message>& received) {
  ++self->state.group->received;
  if (const auto value = unpack<Message>(received, "swarm_worker"))
    happen(self, Event{*value});
}

void tick(swarm_worker_pointer self) {
  auto& state = self->state;
  if (state.protocol->now() != phase::ended)
    self->delayed_send(self, std::chrono::milliseconds(state.group->timeouts.beat_interval_ms), atom::tick_v);
  happen(self, events::tick{});
}

void finish(swarm_worker_pointer self) {
  auto& state = self->state;
  state.finished = true;
  if (state.protocol->decisions() == nullptr)
    return happen(self, events::stop_requested{});
  happen(self, events::generation_left{.account = {.succeeded = true,
                                                   .reason = "the swarm's windows are done",
                                                   .steps = state.steps,
                                                   .decisions = {}}});
}

} // namespace

swarm_worker_actor::behavior_type swarm_worker(swarm_worker_pointer self, std::shared_ptr<swarm_group> group,
                                               swarm_relay_actor relay, std::uint32_t rank, std::uint64_t incarnation) {
  install_handlers(self, swarm_worker_state::name);
  auto& state = self->state;
  state.group = std::move(group);
  state.relay = std::move(relay);
  state.rank = rank;
  const auto& file = *state.group->file;
  state.protocol.emplace(session::options_of(file, state.group->digest, file.workers()[rank]->name, incarnation));
  self->set_down_handler([self](const caf::down_msg& down) {
    if (self->state.aggregator && down.source == self->state.aggregator.address())
      happen(self, events::aggregator_down{});
  });
  // Hosts do not beat in step.
  const auto offset = std::uint64_t{rank} * 7919 % state.group->timeouts.beat_interval_ms;
  self->delayed_send(self, std::chrono::milliseconds(offset), atom::tick_v);
  return {
      [self](atom::decide, const message<messages::decision>& decision) {
        receive<events::decision_received, messages::decision>(self, decision);
      },
      [self](atom::place, const message<messages::placement>& place, const store_actor& store) {
        ++self->state.group->received;
        take_placement(self, place, store);
      },
      [self](atom::closed, const message<messages::generation_notice>& notice) {
        receive<events::notice_received, messages::generation_notice>(self, notice);
      },
      [self](atom::connected, gateway_actor gateway) {
        self->state.gateway = std::move(gateway);
        happen(self, events::connected{});
      },
      [self](atom::lost) {
        self->state.gateway = nullptr;
        happen(self, events::disconnected{});
      },
      [self](atom::greet) { happen(self, events::greeting_due{}); },
      [self](atom::tick) { tick(self); },
      [self](atom::report, std::uint32_t index) { prepare(self->state, index); },
      [self](atom::report) {
        self->state.window_ended = true;
        report_open(self);
      },
      [self](atom::stop) { finish(self); },
  };
}

} // namespace dynamix::actors
