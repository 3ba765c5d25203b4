#include "actors/worker/worker.hpp"

#include "actors/handlers.hpp"
#include "actors/packing.hpp"
#include "messages/leave.hpp"
#include "messages/validation.hpp"
#include "storage/json_text.hpp"
#include "telemetry/logging.hpp"

#include <spdlog/spdlog.h>

#include <utility>
#include <variant>

namespace dynamix::actors {

namespace {

namespace events = session::events;
namespace effects = session::effects;
using worker_pointer = worker_local::stateful_pointer<worker_state>;

/// What happens, and all that follows from it.
void happen(worker_pointer self, session::event what);

messages::farewell fitted(messages::farewell said) {
  said.reason = messages::fit_text(said.reason);
  return said;
}

/// Carries effects out.
struct worker_performer {
  worker_pointer self;
  worker_state& state = self->state;

  static std::chrono::milliseconds patience(std::uint32_t timeout_ms) { return std::chrono::milliseconds(timeout_ms); }

  void operator()(const effects::say_hello& what) const {
    auto said = what.hello;
    said.left_because = messages::fit_text(said.left_because);
    self->request(state.gateway, patience(what.timeout_ms), atom::hello_v, pack(said), worker_actor{self})
        .then(
            [self = self, number = what.number](const message<messages::welcome>& answer,
                                                const aggregator_actor& aggregator) {
              std::optional<messages::welcome> welcome;
              const auto said = unpack<messages::welcome>(answer, "worker");
              if (said && (aggregator || said->verdict != messages::welcome_verdict::accepted))
                welcome = *said;
              self->state.answering_aggregator = aggregator;
              happen(self, events::hello_answered{number, std::move(welcome)});
            },
            [self = self, number = what.number](const caf::error& error) {
              spdlog::debug("greeting_failed error={}", storage::quoted(to_text(error)));
              happen(self, events::hello_answered{number, std::nullopt});
            });
  }
  void operator()(const effects::greet_later& what) const {
    self->delayed_send(self, to_milliseconds(what.seconds), atom::greet_v);
  }
  void operator()(const effects::redirect& what) const { self->send(state.connector, atom::redirect_v, what.leader); }
  void operator()(const effects::follow_aggregator&) const {
    if (state.aggregator == state.answering_aggregator)
      return;
    state.aggregator = state.answering_aggregator;
    self->monitor(state.aggregator);
  }
  void operator()(const effects::forget_aggregator&) const { state.aggregator = nullptr; }
  void operator()(const effects::send_report& what) const {
    self->send(state.aggregator, atom::report_v, pack(what.report));
  }
  void operator()(const effects::send_evaluation& what) const {
    self->send(state.aggregator, atom::evaluation_v, pack(what.report));
  }
  void operator()(const effects::send_heartbeat& what) const {
    const auto answered = [self = self, asked = state.aggregator, reports = what.reports](bool heard) {
      if (self->state.aggregator == asked) // what another aggregator did not say is not an event any more
        happen(self, events::heartbeat_answered{heard, reports});
    };
    self->request(state.aggregator, patience(what.timeout_ms), atom::beat_v, pack(what.heartbeat))
        .then([answered](atom::beat) { answered(true); }, [answered](const caf::error&) { answered(false); });
  }
  void operator()(const effects::send_absence& what) const {
    self->send(state.aggregator, atom::absent_v, pack(what.absence));
  }
  void operator()(const effects::settle_aggregator& what) const {
    self->request(state.aggregator, patience(what.timeout_ms), atom::settle_v)
        .then([self = self](atom::settle) { happen(self, events::aggregator_settled{}); },
              [self = self](const caf::error&) { happen(self, events::aggregator_settled{}); });
  }
  void operator()(const effects::say_farewell& what) const {
    self->request(state.aggregator, patience(what.timeout_ms), atom::farewell_v, pack(fitted(what.farewell)))
        .then([self = self](atom::farewell) { happen(self, events::farewell_answered{true}); },
              [self = self](const caf::error&) { happen(self, events::farewell_answered{false}); });
  }

  void operator()(const effects::join& what) const { state.training->join(what.rank, what.decisions); }
  void operator()(const effects::enter_generation& what) const {
    dynamix::telemetry::set_log_generation(what.placement->generation);
    state.store = state.offered_store;
    state.training->place(*what.placement, state.store);
  }
  void operator()(const effects::ask_to_regroup&) const { state.training->regroup(); }
  void operator()(const effects::ask_to_stop&) const { state.training->request_stop(); }
  void operator()(const effects::interrupt& what) const { state.training->interrupt(what.reason); }
  void operator()(const effects::finish_training& what) const { state.training->finish(what.reason); }

  void operator()(const effects::decision_offered& what) const {
    const auto& key = what.decision.key;
    if (state.options.trace)
      state.options.trace->moment("decision", key.term, key.window);
    if (what.verdict == session::offer_verdict::accepted)
      state.training->decided(what.decision);
    else
      spdlog::warn("decision_refused verdict={} term={} window={}", static_cast<int>(what.verdict), key.term,
                   key.window);
  }
  void operator()(const effects::end& what) const {
    const bool stopped = messages::tells_stop(what.farewell);
    state.events->worker_ended(
        {{what.succeeded, what.reason, stopped}, fitted(what.farewell), state.training->evaluations()},
        state.training->outcome().checkpoint);
  }
  void operator()(const effects::fail& what) const { state.events->failed(what.reason); }
  void operator()(const effects::log& what) const {
    const auto level = what.level == effects::log_level::info      ? spdlog::level::info
                       : what.level == effects::log_level::warning ? spdlog::level::warn
                                                                   : spdlog::level::err;
    if (const auto& name = state.options.host.name; cluster::is_slot(name))
      spdlog::log(level, "{} worker={}", what.text, name);
    else
      spdlog::log(level, "{}", what.text);
  }
};

void happen(worker_pointer self, session::event what) {
  auto& state = self->state;
  const session::moment at{seconds_now(self), state.training->steps()};
  for (const auto& effect : state.protocol->handle(at, std::move(what)))
    std::visit(worker_performer{self}, effect);
}

/// A message that is all there is to the event.
template <class Event, class Message>
void receive(worker_pointer self, const message<Message>& received) {
  if (const auto value = unpack<Message>(received, "worker"))
    happen(self, Event{*value});
}

std::chrono::milliseconds patience(worker_pointer self) {
  return std::chrono::milliseconds(self->state.options.timeouts.request_timeout_ms);
}

/// Telemetry completes it; where it does not, the window is reported without what it would have measured.
void complete(worker_pointer self, const message<messages::window_report>& report) {
  const auto completed = [self](const message<messages::window_report>& known) {
    receive<events::window_completed, messages::window_report>(self, known);
  };
  self->request(self->state.telemetry, patience(self), atom::report_v, report)
      .then(completed, [completed, report](const caf::error&) { completed(report); });
}

/// Once the reports before it have come back from telemetry.
template <class Action>
void behind_reports(worker_pointer self, Action action) {
  if (!self->state.telemetry)
    return action(); // there have been none
  self->request(self->state.telemetry, patience(self), atom::settle_v)
      .then([action](atom::settle) { action(); }, [action](const caf::error&) { action(); });
}

/// Training has left its generation, or has ended.
void generation_left(worker_pointer self) {
  const auto& run = *self->state.training;
  const auto outcome = run.outcome();
  const bool stopped = outcome.how == trainer::ending::stopped;
  const auto good_end = stopped ? messages::farewell_end::stopped : messages::farewell_end::completed;
  happen(self,
         events::generation_left{.goes_on = !outcome.succeeded() && outcome.how != trainer::ending::failed,
                                 .attempted_steps = outcome.attempted_steps,
                                 .account = {.succeeded = outcome.succeeded(),
                                             .reason = outcome.reason,
                                             .steps = outcome.steps,
                                             .samples = outcome.samples,
                                             .epochs = outcome.epochs,
                                             .wall_seconds = outcome.wall_seconds,
                                             .final_accuracy = outcome.final_accuracy,
                                             .seconds_to_target = outcome.seconds_to_target,
                                             .parameter_checksum = outcome.parameter_checksum,
                                             .control_seconds = run.control_seconds(),
                                             .decisions = {},
                                             .end = outcome.succeeded() ? good_end : messages::farewell_end::failed}});
}

void take_placement(worker_pointer self, const message<messages::placement>& received, const store_actor& store) {
  const auto placement = unpack<messages::placement>(received, "worker");
  if (!placement)
    return;
  self->state.offered_store = store;
  happen(self, events::placement_received{std::make_shared<const messages::placement>(*placement),
                                          store == self->state.store});
}

void tick(worker_pointer self) {
  self->delayed_send(self, std::chrono::milliseconds(self->state.options.timeouts.beat_interval_ms), atom::tick_v);
  happen(self, events::tick{});
}

} // namespace

worker_local::behavior_type worker(worker_pointer self, training_options options, session::worker_options protocol,
                                   std::shared_ptr<host_events> host) {
  install_handlers(self, worker_state::name);
  auto& state = self->state;
  state.options = std::move(options);
  state.events = std::move(host);
  state.protocol.emplace(std::move(protocol));
  self->set_down_handler([self](const caf::down_msg& down) {
    if (self->state.aggregator && down.source == self->state.aggregator.address())
      happen(self, events::aggregator_down{});
  });
  state.training = make_training(state.options);
  state.training->open(self->system(), worker_local{self});
  self->send(self, atom::tick_v);
  return {
      [self](atom::serve, telemetry_actor telemetry) { self->state.telemetry = std::move(telemetry); },
      [self](atom::serve, connector_actor connector) { self->state.connector = std::move(connector); },
      [self](atom::decide, const message<messages::decision>& decision) {
        receive<events::decision_received, messages::decision>(self, decision);
      },
      [self](atom::place, const message<messages::placement>& place, const store_actor& store) {
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
      [self](atom::report, const message<messages::window_report>& report) { complete(self, report); },
      [self](atom::evaluation, const message<messages::evaluation_report>& report) {
        behind_reports(self, [self, report] { receive<events::evaluated, messages::evaluation_report>(self, report); });
      },
      [self](atom::ready) {
        behind_reports(self, [self] { happen(self, events::trainer_ready{self->state.training->group()}); });
      },
      [self](atom::absent, const std::string& reason) {
        behind_reports(self, [self, reason] { happen(self, events::trainer_lost{reason}); });
      },
      [self](atom::left) { behind_reports(self, [self] { generation_left(self); }); },
      [self](atom::beat) { happen(self, events::training_began{}); },
      [self](atom::tick) { tick(self); },
      [self](atom::stop) { happen(self, events::stop_requested{}); },
      [self](atom::leave) { happen(self, events::leave_requested{}); },
  };
}

} // namespace dynamix::actors
