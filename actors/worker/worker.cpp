#include "actors/worker/worker.hpp"

#include "messages/leave.hpp"
#include "telemetry/logging.hpp"

#include <spdlog/spdlog.h>

#include <utility>

namespace dynamix::actors {

namespace {

using worker_pointer = worker_local::stateful_pointer<worker_state>;

/// Carries out what depends on who trains.
struct worker_performer : protocol_performer<worker_performer, worker_pointer> {
  using protocol_performer::operator();

  std::uint64_t steps() const { return self->state.training->steps(); }

  void operator()(const effects::redirect& what) const {
    self->send(self->state.connector, atom::redirect_v, what.leader);
  }
  void operator()(const effects::send_report& what) const {
    self->send(self->state.aggregator, atom::report_v, pack(what.report));
  }
  void operator()(const effects::send_evaluation& what) const {
    self->send(self->state.aggregator, atom::evaluation_v, pack(what.report));
  }
  void operator()(const effects::send_absence& what) const {
    self->send(self->state.aggregator, atom::absent_v, pack(what.absence));
  }
  void operator()(const effects::join& what) const { self->state.training->join(what.rank, what.decisions); }
  void operator()(const effects::enter_generation& what) const {
    dynamix::telemetry::set_log_generation(what.placement->generation);
    self->state.store = self->state.offered_store;
    self->state.training->place(*what.placement, self->state.store);
  }
  void operator()(const effects::ask_to_regroup&) const { self->state.training->regroup(); }
  void operator()(const effects::ask_to_stop&) const { self->state.training->request_stop(); }
  void operator()(const effects::interrupt& what) const { self->state.training->interrupt(what.reason); }
  void operator()(const effects::finish_training& what) const { self->state.training->finish(what.reason); }

  void operator()(const effects::decision_offered& what) const {
    const auto& key = what.decision.key;
    if (self->state.options.trace)
      self->state.options.trace->moment("decision", key.term, key.window);
    if (what.verdict == session::offer_verdict::accepted)
      self->state.training->decided(what.decision);
    else
      spdlog::warn("decision_refused verdict={} term={} window={}", static_cast<int>(what.verdict), key.term,
                   key.window);
  }
  void operator()(const effects::end& what) const {
    const bool stopped = messages::tells_stop(what.farewell);
    self->state.events->worker_ended(
        {{what.succeeded, what.reason, stopped}, fitted(what.farewell), self->state.training->evaluations()},
        self->state.training->outcome().checkpoint);
  }
  void operator()(const effects::fail& what) const { self->state.events->failed(what.reason); }
  void operator()(const effects::log& what) const {
    const auto level = what.level == effects::log_level::info      ? spdlog::level::info
                       : what.level == effects::log_level::warning ? spdlog::level::warn
                                                                   : spdlog::level::err;
    if (const auto& name = self->state.options.host.name; cluster::is_slot(name))
      spdlog::log(level, "{} worker={}", what.text, name);
    else
      spdlog::log(level, "{}", what.text);
  }
};

std::chrono::milliseconds patience(worker_pointer self) {
  return std::chrono::milliseconds(self->state.options.timeouts.request_timeout_ms);
}

/// Telemetry completes it; where it does not, the window is reported without what it would have measured.
void complete(worker_pointer self, const message<messages::window_report>& report) {
  const auto completed = [self](const message<messages::window_report>& known) {
    receive<worker_performer, events::window_completed>(self, known);
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
  happen<worker_performer>(
      self,
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

void tick(worker_pointer self) {
  self->delayed_send(self, std::chrono::milliseconds(self->state.options.timeouts.beat_interval_ms), atom::tick_v);
  happen<worker_performer>(self, events::tick{});
}

} // namespace

worker_local::behavior_type worker(worker_pointer self, training_options options, session::worker_options protocol,
                                   std::shared_ptr<host_events> host) {
  install_handlers(self, worker_state::name);
  auto& state = self->state;
  state.options = std::move(options);
  state.events = std::move(host);
  state.protocol.emplace(std::move(protocol));
  watch_aggregator<worker_performer>(self);
  state.training = make_training(state.options);
  state.training->open(self->system(), worker_local{self});
  self->send(self, atom::tick_v);
  return {
      [self](atom::serve, telemetry_actor telemetry) { self->state.telemetry = std::move(telemetry); },
      [self](atom::serve, connector_actor connector) { self->state.connector = std::move(connector); },
      [self](atom::decide, const message<messages::decision>& decision) {
        receive<worker_performer, events::decision_received>(self, decision);
      },
      [self](atom::place, const message<messages::placement>& place, const store_actor& store) {
        take_placement<worker_performer>(self, place, store, [](const messages::placement& taken) {
          return std::make_shared<const messages::placement>(taken);
        });
      },
      [self](atom::closed, const message<messages::generation_notice>& notice) {
        receive<worker_performer, events::notice_received>(self, notice);
      },
      [self](atom::connected, gateway_actor gateway) {
        self->state.gateway = std::move(gateway);
        happen<worker_performer>(self, events::connected{});
      },
      [self](atom::lost) {
        self->state.gateway = nullptr;
        happen<worker_performer>(self, events::disconnected{});
      },
      [self](atom::greet) { happen<worker_performer>(self, events::greeting_due{}); },
      [self](atom::report, const message<messages::window_report>& report) { complete(self, report); },
      [self](atom::evaluation, const message<messages::evaluation_report>& report) {
        behind_reports(self, [self, report] { receive<worker_performer, events::evaluated>(self, report); });
      },
      [self](atom::ready) {
        behind_reports(
            self, [self] { happen<worker_performer>(self, events::trainer_ready{self->state.training->group()}); });
      },
      [self](atom::absent, const std::string& reason) {
        behind_reports(self, [self, reason] { happen<worker_performer>(self, events::trainer_lost{reason}); });
      },
      [self](atom::left) { behind_reports(self, [self] { generation_left(self); }); },
      [self](atom::beat) { happen<worker_performer>(self, events::training_began{}); },
      [self](atom::tick) { tick(self); },
      [self](atom::stop) { happen<worker_performer>(self, events::stop_requested{}); },
      [self](atom::leave) { happen<worker_performer>(self, events::leave_requested{}); },
  };
}

} // namespace dynamix::actors
