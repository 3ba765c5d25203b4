#include "actors/worker.hpp"

#include "actors/handlers.hpp"
#include "actors/packing.hpp"
#include "messages/validation.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace dynamix::actors {

namespace {

using pointer = worker_local::stateful_pointer<worker_state>;
using phase = worker_state::phase;

constexpr double first_greeting_delay_seconds = 0.1;
constexpr double longest_greeting_delay_seconds = 2;

void end(pointer self, bool succeeded, const std::string& reason) {
  auto& state = self->state;
  if (state.now == phase::ended)
    return;
  state.now = phase::ended;
  state.events->worker_ended({succeeded, reason}, state.farewell(),
                             state.run ? state.run->evaluations() : std::vector<messages::evaluation_report>{},
                             state.run ? state.run->outcome().checkpoint : std::string{});
}

void greet_later(pointer self) {
  auto& delay = self->state.greeting_delay_seconds;
  delay = std::clamp(delay * 2, first_greeting_delay_seconds, longest_greeting_delay_seconds);
  self->delayed_send(self, to_milliseconds(delay), atom::greet_v);
}

void accepted(pointer self, const messages::welcome& welcome, const aggregator_actor& aggregator,
              const store_actor& store) {
  auto& state = self->state;
  state.greeting_delay_seconds = 0;
  state.aggregator = aggregator;
  self->monitor(aggregator);
  if (state.telemetry)
    self->send(state.telemetry, atom::upstream_v, aggregator);
  if (state.now != phase::greeting) {
    spdlog::info("arbitrator_is_back term={} training went on", welcome.term);
    return;
  }
  spdlog::info("joined generation={} rank={} workers={}", welcome.generation, welcome.rank, welcome.world_size);
  state.now = phase::training;
  state.run = std::make_shared<training_run>(state.options, welcome);
  if (state.stop_requested)
    state.run->request_stop();
  state.run->start(self->system(), worker_local{self}, store);
}

void greet(pointer self) {
  auto& state = self->state;
  if (!state.gateway || !state.orphaned() || state.now == phase::leaving || state.now == phase::ended)
    return;
  if (state.now == phase::idle)
    state.now = phase::greeting;
  self->request(state.gateway, state.options.request_timeout, atom::hello_v, pack(state.hello()), worker_actor{self})
      .then(
          [self](const frame& answer, const aggregator_actor& aggregator, const store_actor& store) {
            const auto welcome = unpack<messages::welcome>(answer, "worker");
            if (!welcome)
              return greet_later(self);
            if (welcome->verdict == messages::welcome_verdict::accepted)
              return accepted(self, *welcome, aggregator, store);
            spdlog::error("refused detail=\"{}\"", welcome->detail);
            // Whoever trains already trains on: the arbitrator is not needed for that.
            if (self->state.now == phase::greeting)
              end(self, false, "the arbitrator refused this host: " + welcome->detail);
          },
          [self](const caf::error& error) {
            spdlog::debug("greeting_failed error=\"{}\"", to_text(error));
            greet_later(self);
          });
}

void orphan(pointer self, const char* why) {
  auto& state = self->state;
  if (state.orphaned())
    return;
  state.aggregator = nullptr;
  self->send(state.telemetry, atom::orphan_v);
  if (state.now == phase::training)
    spdlog::warn("arbitrator_lost reason=\"{}\" the last batch sizes stand, training goes on", why);
}

void say_farewell(pointer self) {
  auto& state = self->state;
  state.run->decisions().close();
  const auto& outcome = state.run->outcome();
  self->request(state.telemetry, 2 * state.options.request_timeout, atom::farewell_v, pack(state.farewell()))
      .then(
          [self, &outcome](const frame& completed) {
            if (const auto farewell = unpack<messages::farewell>(completed, "worker"))
              self->state.telemetry_seconds = farewell->telemetry_seconds;
            end(self, outcome.succeeded, outcome.reason);
          },
          [self, &outcome](const caf::error&) { end(self, outcome.succeeded, outcome.reason); });
}

/// First settles, so that decisions under way arrive before they are counted for the last time.
void leave(pointer self) {
  auto& state = self->state;
  const auto& outcome = state.run->outcome();
  state.now = phase::leaving;
  spdlog::info("training_ended succeeded={} reason=\"{}\" steps={}", outcome.succeeded, outcome.reason, outcome.steps);
  self->request(state.telemetry, state.options.request_timeout, atom::settle_v)
      .then([self](atom::settle) { say_farewell(self); }, [self](const caf::error&) { say_farewell(self); });
}

void take_decision(pointer self, const frame& received) {
  auto& state = self->state;
  const auto decision = unpack<messages::decision>(received, "worker");
  if (!decision || !state.run)
    return;
  const auto verdict = state.run->decisions().offer(*decision);
  if (verdict != trainer::offer_verdict::accepted)
    spdlog::warn("decision_refused verdict={} term={} window={}", static_cast<int>(verdict), decision->key.term,
                 decision->key.window);
}

void generation_closed(pointer self, const frame& notice) {
  auto& state = self->state;
  const auto welcome = unpack<messages::welcome>(notice, "worker");
  if (!welcome || !state.run)
    return;
  spdlog::warn("generation_closed detail=\"{}\"", welcome->detail);
  state.run->abort(welcome->detail);
}

} // namespace

messages::hello worker_state::hello() const {
  auto said = identity;
  if (run) {
    said.generation = run->place().generation;
    said.last_decision = run->decisions().newest();
  }
  return said;
}

messages::farewell worker_state::farewell() const {
  messages::farewell said{.host = options.host, .reason = "training never began", .decisions = {}};
  if (!run)
    return said;
  const auto& outcome = run->outcome();
  said.rank = run->place().rank;
  said.succeeded = outcome.succeeded;
  said.reason = messages::fit_text(outcome.reason);
  said.steps = outcome.steps;
  said.samples = outcome.samples;
  said.epochs = outcome.epochs;
  said.wall_seconds = outcome.wall_seconds;
  said.final_accuracy = outcome.final_accuracy;
  said.seconds_to_target = outcome.seconds_to_target;
  said.parameter_checksum = outcome.parameter_checksum;
  said.control_seconds = run->control_seconds();
  said.telemetry_seconds = telemetry_seconds;
  said.decisions = run->decisions().counts();
  return said;
}

worker_local::behavior_type worker(pointer self, training_options options, messages::hello identity,
                                   std::shared_ptr<host_events> events) {
  install_handlers(self, worker_state::name);
  auto& state = self->state;
  state.options = std::move(options);
  state.identity = std::move(identity);
  state.events = std::move(events);
  self->set_down_handler([self](const caf::down_msg& down) {
    if (self->state.orphaned() || down.source != self->state.aggregator.address())
      return;
    orphan(self, "its aggregator is gone");
    self->send(self, atom::greet_v);
  });
  return {
      [self](atom::serve, telemetry_actor telemetry) {
        self->state.telemetry = std::move(telemetry);
        if (!self->state.orphaned())
          self->send(self->state.telemetry, atom::upstream_v, self->state.aggregator);
      },
      [self](atom::decide, const frame& decision) { take_decision(self, decision); },
      [self](atom::closed, const frame& notice) { generation_closed(self, notice); },
      [self](atom::connected, gateway_actor gateway) {
        self->state.gateway = std::move(gateway);
        greet(self);
      },
      [self](atom::lost) {
        self->state.gateway = nullptr;
        orphan(self, "its host is gone");
      },
      [self](atom::greet) { greet(self); },
      [self](atom::report, const frame& report) { self->send(self->state.telemetry, atom::report_v, report); },
      [self](atom::evaluation, const frame& report) { self->send(self->state.telemetry, atom::evaluation_v, report); },
      [self](atom::ended) { leave(self); },
      [self](atom::stop) {
        self->state.stop_requested = true;
        if (self->state.run)
          self->state.run->request_stop();
        else
          end(self, false, "stopped before training began");
      },
  };
}

} // namespace dynamix::actors
