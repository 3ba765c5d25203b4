#pragma once

/// What every worker's actor does alike, whoever trains: it turns messages into events of its protocol
/// (session/worker_protocol.hpp), and the protocol's effects into messages.

#include "actors/handlers.hpp"
#include "actors/interfaces.hpp"
#include "actors/packing.hpp"
#include "messages/leave.hpp"
#include "messages/validation.hpp"
#include "session/worker_protocol.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

namespace dynamix::actors {

namespace events = session::events;
namespace effects = session::effects;

struct protocol_state {
  std::optional<session::worker_protocol> protocol;
  gateway_actor gateway;       ///< null while there is none in reach
  aggregator_actor aggregator; ///< null while orphaned
  store_actor store;           ///< of the placement that was taken last
  // Came with the event under way.
  aggregator_actor answering_aggregator;
  store_actor offered_store;
};

inline messages::farewell fitted(messages::farewell said) {
  said.reason = messages::fit_text(said.reason);
  return said;
}

/// What happens, and all that follows from it.
template <class Performer, class Self>
void happen(Self self, session::event what) {
  const Performer perform{{self}};
  for (const auto& effect : self->state.protocol->handle({seconds_now(self), perform.steps()}, std::move(what)))
    std::visit(perform, effect);
}

/// Carries out the effects that are the same for all, for an actor whose state is a protocol_state.
template <class Performer, class Self>
struct protocol_performer {
  Self self;

  /// Of who counts messages.
  void sent() const {}
  void received() const {}

  void operator()(const effects::say_hello& what) const {
    auto said = what.hello;
    said.left_because = messages::fit_text(said.left_because);
    derived().sent();
    self->request(self->state.gateway, std::chrono::milliseconds(what.timeout_ms), atom::hello_v, pack(said),
                  worker_actor{self})
        .then(
            [self = self, number = what.number](const message<messages::welcome>& answer,
                                                const aggregator_actor& aggregator) {
              Performer{{self}}.received();
              std::optional<messages::welcome> welcome;
              const auto said = unpack<messages::welcome>(answer, self->state.name);
              if (said && (aggregator || said->verdict != messages::welcome_verdict::accepted))
                welcome = *said;
              self->state.answering_aggregator = aggregator;
              happen<Performer>(self, events::hello_answered{number, std::move(welcome)});
            },
            [self = self, number = what.number](const caf::error& error) {
              spdlog::debug("greeting_failed error={}", storage::quoted(to_text(error)));
              happen<Performer>(self, events::hello_answered{number, std::nullopt});
            });
  }
  void operator()(const effects::greet_later& what) const {
    self->delayed_send(self, to_milliseconds(what.seconds), atom::greet_v);
  }
  void operator()(const effects::follow_aggregator&) const {
    auto& state = self->state;
    if (state.aggregator == state.answering_aggregator)
      return;
    state.aggregator = state.answering_aggregator;
    self->monitor(state.aggregator);
  }
  void operator()(const effects::forget_aggregator&) const { self->state.aggregator = nullptr; }
  void operator()(const effects::send_heartbeat& what) const {
    ask<atom::beat>(
        what.timeout_ms,
        [self = self, asked = self->state.aggregator, reports = what.reports](bool heard) {
          if (self->state.aggregator == asked) // what another aggregator did not say is not an event any more
            happen<Performer>(self, events::heartbeat_answered{heard, reports});
        },
        atom::beat_v, pack(what.heartbeat));
  }
  void operator()(const effects::settle_aggregator& what) const {
    ask<atom::settle>(
        what.timeout_ms, [self = self](bool) { happen<Performer>(self, events::aggregator_settled{}); },
        atom::settle_v);
  }
  void operator()(const effects::say_farewell& what) const {
    ask<atom::farewell>(
        what.timeout_ms, [self = self](bool heard) { happen<Performer>(self, events::farewell_answered{heard}); },
        atom::farewell_v, pack(fitted(what.farewell)));
  }

private:
  const Performer& derived() const { return static_cast<const Performer&>(*this); }

  /// `answered` is told whether the aggregator has heard it.
  template <class Answer, class Answered, class... Content>
  void ask(std::uint32_t timeout_ms, Answered answered, const Content&... content) const {
    derived().sent();
    self->request(self->state.aggregator, std::chrono::milliseconds(timeout_ms), content...)
        .then(
            [self = self, answered](Answer) {
              Performer{{self}}.received();
              answered(true);
            },
            [answered](const caf::error&) { answered(false); });
  }
};

/// A message that is all there is to the event.
template <class Performer, class Event, class Self, class Message>
void receive(Self self, const message<Message>& received) {
  Performer{{self}}.received();
  if (const auto value = unpack<Message>(received, self->state.name))
    happen<Performer>(self, Event{*value});
}

/// `share` keeps the placement.
template <class Performer, class Self, class Share>
void take_placement(Self self, const message<messages::placement>& received, const store_actor& store, Share share) {
  Performer{{self}}.received();
  const auto placement = unpack<messages::placement>(received, self->state.name);
  if (!placement)
    return;
  self->state.offered_store = store;
  happen<Performer>(self, events::placement_received{share(*placement), store == self->state.store});
}

template <class Performer, class Self>
void watch_aggregator(Self self) {
  self->set_down_handler([self](const caf::down_msg& down) {
    if (self->state.aggregator && down.source == self->state.aggregator.address())
      happen<Performer>(self, events::aggregator_down{});
  });
}

} // namespace dynamix::actors
