#include "actors/worker.hpp"

#include "actors/greeting.hpp"
#include "actors/handlers.hpp"
#include "actors/packing.hpp"
#include "actors/worker_end.hpp"
#include "telemetry/logging.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace dynamix::actors {

namespace {

using working::pointer;
using phase = worker_state::phase;
using messages::welcome_verdict;

void accepted(pointer self, const messages::welcome& welcome, const aggregator_actor& aggregator) {
  auto& state = self->state;
  const bool was_orphaned = state.orphaned();
  state.greeting_delay_seconds = 0;
  state.duplicate_since_seconds = -1;
  if (state.aggregator != aggregator) {
    state.aggregator = aggregator;
    self->monitor(aggregator);
  }
  if (state.telemetry)
    self->send(state.telemetry, atom::upstream_v, aggregator);
  if (state.now == phase::greeting) {
    spdlog::info("joined rank={} generation={} waiting for a place", welcome.rank, welcome.generation);
    state.now = phase::waiting;
    state.run = std::make_shared<training_run>(state.options, welcome.rank);
    state.run->start(self->system(), worker_local{self});
  } else if (was_orphaned) {
    spdlog::info("arbitrator_is_back term={} steps={}", welcome.term, state.run->steps());
  }
}

/// Not accepted: tries again where that may help, ends where it cannot, and trains on where it trains.
void refused(pointer self, const messages::welcome& welcome) {
  auto& state = self->state;
  const double now = seconds_now(self);
  if (welcome.verdict == welcome_verdict::not_leader)
    return self->send(state.connector, atom::redirect_v, welcome.leader);
  spdlog::error("refused detail=\"{}\"", welcome.detail);
  if (state.now >= phase::training)
    return;
  // The process that this one follows on may not have been missed yet.
  if (state.duplicate_since_seconds < 0)
    state.duplicate_since_seconds = now;
  const double patience_seconds = 2 * state.options.timeouts.connection_timeout_ms / 1000.0;
  if (welcome.verdict == welcome_verdict::duplicate_host && now - state.duplicate_since_seconds < patience_seconds)
    return greet_later(self);
  const bool over = welcome.verdict == welcome_verdict::generation_closed;
  working::end(self, over, (over ? "" : "the arbitrator refused this host: ") + welcome.detail);
}

void say_hello(pointer self) {
  auto& state = self->state;
  state.greeting_under_way = true;
  const auto number = ++state.greetings;
  const std::chrono::milliseconds patience(state.options.timeouts.request_timeout_ms);
  const auto said = state.hello();
  self->request(state.gateway, patience, atom::hello_v, pack(said), worker_actor{self})
      .then(
          [self, number, training = said.training, generation = said.generation](const frame& answer,
                                                                                 const aggregator_actor& aggregator) {
            auto& state = self->state;
            if (number != state.greetings || state.now == phase::ended)
              return;
            state.greeting_under_way = false;
            const auto welcome = unpack<messages::welcome>(answer, "worker");
            if (!welcome)
              return greet_later(self);
            if (welcome->verdict != welcome_verdict::accepted || !aggregator)
              return refused(self, *welcome);
            accepted(self, *welcome, aggregator);
            state.known_generation = generation;
            state.known_training = training;
            // It may have left that generation meanwhile, or be in another, or hold decisions of a newer term.
            const bool settled = state.known(state.now == phase::training) || state.now > phase::training;
            if (state.gateway && (!settled || state.run->decisions().newest().term > welcome->term))
              say_hello(self);
          },
          [self, number](const caf::error& error) {
            if (number != self->state.greetings)
              return;
            self->state.greeting_under_way = false;
            spdlog::debug("greeting_failed error=\"{}\"", to_text(error));
            greet_later(self);
          });
}

void greet(pointer self) {
  auto& state = self->state;
  const bool wanted = state.now < phase::training || (state.now == phase::training && state.orphaned());
  if (!state.gateway || !wanted || state.greeting_under_way)
    return;
  if (state.now == phase::idle)
    state.now = phase::greeting;
  say_hello(self);
}

void orphan(pointer self, const char* why) {
  auto& state = self->state;
  if (state.orphaned())
    return;
  state.aggregator = nullptr;
  state.reports.reset(); // what was under way is lost
  self->send(state.telemetry, atom::orphan_v);
  if (state.now == phase::training)
    spdlog::warn("arbitrator_lost reason=\"{}\" the last batch sizes stand, training goes on", why);
  else if (state.now == phase::waiting)
    spdlog::warn("arbitrator_lost reason=\"{}\" training waits for it", why);
}

void take_decision(pointer self, const frame& received) {
  auto& state = self->state;
  const auto decision = unpack<messages::decision>(received, "worker");
  if (!decision || !state.run)
    return;
  if (state.options.trace)
    state.options.trace->moment("decision", decision->key.term, decision->key.window);
  const auto verdict = state.run->decisions().offer(*decision);
  if (verdict != trainer::offer_verdict::accepted)
    spdlog::warn("decision_refused verdict={} term={} window={}", static_cast<int>(verdict), decision->key.term,
                 decision->key.window);
}

void take_place(pointer self, const frame& received, const store_actor& store) {
  auto& state = self->state;
  const auto place = unpack<messages::placement>(received, "worker");
  // Another aggregator, which did not know of this worker's generation, has given its number to another one.
  if (place && state.now == phase::training && place->generation == state.run->newest().generation &&
      store != state.meeting_point)
    return working::interrupt(self, "another generation of the same number was formed");
  if (!place || state.now != phase::waiting || place->generation <= state.run->newest().generation ||
      !std::ranges::binary_search(place->members, state.run->rank()) || state.run->finished())
    return;
  // Found on a hello that was said before the last generation: the newer state in memory would be overwritten.
  if (!state.known(false))
    return spdlog::warn("place_refused generation={} the next hello tells what has happened", place->generation);
  dynamix::telemetry::set_log_generation(place->generation);
  state.now = phase::training;
  state.watch->entered(seconds_now(self));
  spdlog::info("placed generation={} members={} source={}", place->generation, place->members.size(), place->source);
  state.meeting_point = store;
  state.run->place(*place, store);
}

void generation_changes(pointer self, const frame& received) {
  auto& state = self->state;
  const auto notice = unpack<messages::generation_notice>(received, "worker");
  if (!notice || !state.run)
    return;
  if (state.now == phase::waiting)
    return greet(self);
  if (state.now != phase::training || notice->generation != state.run->newest().generation)
    return;
  if (notice->change == messages::generation_change::regroup)
    return state.run->regroup();
  spdlog::warn("generation_ends generation={} reason=\"{}\"", notice->generation, notice->reason);
  working::interrupt(self, notice->reason);
}

/// The training thread has left its generation, or has ended.
void generation_left(pointer self) {
  auto& state = self->state;
  const auto outcome = state.run->outcome();
  state.watch->left();
  if (outcome.succeeded() || outcome.how == trainer::ending::failed || state.run->finished())
    return working::conclude(self, outcome);
  state.now = phase::waiting;
  spdlog::warn("generation_left generation={} steps={} reason=\"{}\"", state.run->newest().generation, outcome.steps,
               outcome.reason);
  if (!working::end_between_generations(self))
    greet(self);
}

/// What nobody is there to answer for takes no credit: telemetry keeps the newest of it.
void pass_on(pointer self, const frame& report) {
  auto& state = self->state;
  if (state.orphaned())
    self->send(state.telemetry, atom::report_v, report);
  else if (auto now = state.reports.offer(report))
    self->send(state.telemetry, atom::report_v, std::move(*now));
}

void beat(pointer self) {
  auto& state = self->state;
  if (state.orphaned() || !state.run || state.now >= phase::leaving)
    return;
  const std::chrono::milliseconds patience(state.options.timeouts.silence_ms);
  self->request(state.aggregator, patience, atom::beat_v, pack(state.heartbeat()))
      .then(
          [self, sent = state.reports.under_way()](atom::beat) {
            if (auto next = self->state.reports.answered(sent))
              self->send(self->state.telemetry, atom::report_v, std::move(*next));
          },
          [self, asked = state.aggregator](const caf::error&) {
            if (self->state.aggregator != asked)
              return;
            orphan(self, "it does not answer");
            // Another replica may lead by now; a single one is tried again.
            self->send(self->state.connector, atom::redirect_v, std::string{});
          });
}

void tick(pointer self) {
  auto& state = self->state;
  self->delayed_send(self, std::chrono::milliseconds(state.options.timeouts.beat_interval_ms), atom::tick_v);
  beat(self);
  if (!state.run)
    return;
  working::look_after_leave(self);
  const auto finding = state.watch->look(seconds_now(self), state.run->steps(), state.orphaned());
  if (finding.verdict == watch_verdict::fine)
    return;
  spdlog::error("training_{} reason=\"{}\"", finding.verdict == watch_verdict::stuck ? "stuck" : "cut_off",
                finding.reason);
  if (finding.verdict == watch_verdict::stuck)
    state.events->failed(finding.reason);
  else
    working::interrupt(self, finding.reason);
}

} // namespace

worker_local::behavior_type worker(pointer self, training_options options, messages::hello identity,
                                   std::shared_ptr<host_events> events) {
  install_handlers(self, worker_state::name);
  auto& state = self->state;
  state.options = std::move(options);
  state.identity = std::move(identity);
  state.events = std::move(events);
  state.watch.emplace(state.options.timeouts);
  self->set_down_handler([self](const caf::down_msg& down) {
    if (self->state.orphaned() || down.source != self->state.aggregator.address())
      return;
    orphan(self, "its aggregator is gone");
    self->send(self, atom::greet_v);
  });
  self->send(self, atom::tick_v);
  return {
      [self](atom::serve, telemetry_actor telemetry) {
        self->state.telemetry = std::move(telemetry);
        if (!self->state.orphaned())
          self->send(self->state.telemetry, atom::upstream_v, self->state.aggregator);
      },
      [self](atom::serve, connector_actor connector) { self->state.connector = std::move(connector); },
      [self](atom::decide, const frame& decision) { take_decision(self, decision); },
      [self](atom::place, const frame& place, const store_actor& store) { take_place(self, place, store); },
      [self](atom::closed, const frame& notice) { generation_changes(self, notice); },
      [self](atom::connected, gateway_actor gateway) {
        self->state.gateway = std::move(gateway);
        self->state.greeting_under_way = false; // nobody answers what was said on another connection
        greet(self);
      },
      [self](atom::lost) {
        self->state.gateway = nullptr;
        orphan(self, "its host is gone");
      },
      [self](atom::greet) { greet(self); },
      [self](atom::report, const frame& report) { pass_on(self, report); },
      [self](atom::evaluation, const frame& report) { self->send(self->state.telemetry, atom::evaluation_v, report); },
      [self](atom::left) { generation_left(self); },
      [self](atom::beat) { beat(self); },
      [self](atom::tick) { tick(self); },
      [self](atom::stop) { working::stop(self); },
      [self](atom::leave) { working::leave(self); },
  };
}

} // namespace dynamix::actors
