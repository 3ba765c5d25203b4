#include "actors/telemetry.hpp"

#include "actors/handlers.hpp"
#include "actors/packing.hpp"
#include "messages/validation.hpp"
#include "telemetry/survey.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace dynamix::actors {

namespace {

using pointer = telemetry_actor::stateful_pointer<telemetry_state>;

using dynamix::telemetry::window_meter;

std::unique_ptr<window_meter> make_meter(const telemetry_options& options) {
  const auto wants = [&](cluster::telemetry_source source) {
    return std::ranges::find(options.sources, source) != options.sources.end();
  };
  return std::make_unique<window_meter>(
      dynamix::telemetry::choose_sources({.ebpf = wants(cluster::telemetry_source::ebpf),
                                          .tcp_info = wants(cluster::telemetry_source::tcp_info),
                                          .procfs = wants(cluster::telemetry_source::procfs),
                                          .nvml = wants(cluster::telemetry_source::nvml)},
                                         options.kernel.get(), options.control_ports));
}

/// What the report says of the sources goes to the ledger once; without an upstream it waits for one.
void measure(telemetry_state& state, messages::window_report& report) {
  auto measured = state.meter->close_window();
  report.network = measured.network;
  report.system = measured.system;
  report.gpu = measured.gpu;
  report.program_seconds = measured.program_seconds;
  report.telemetry_seconds = measured.sampling_seconds + measured.program_seconds;
  state.seconds_spent += report.telemetry_seconds;
  if (!measured.choice.empty()) {
    spdlog::info("telemetry_chosen text=\"{}\"", measured.choice);
    state.untold_choice = messages::fit_text(measured.choice);
  }
  if (state.upstream)
    report.telemetry_choice = std::exchange(state.untold_choice, {});
}

void complete(pointer self, const frame& received) {
  auto& state = self->state;
  auto report = unpack<messages::window_report>(received, "telemetry");
  if (!report)
    return;
  measure(state, *report);
  if (state.upstream)
    self->send(state.upstream, atom::report_v, pack(*report));
  else
    state.unheard = pack(*report);
}

/// A new arbitrator does not wait for a window that this host has reported to nobody.
void find_upstream(pointer self, aggregator_actor upstream) {
  auto& state = self->state;
  state.upstream = std::move(upstream);
  if (const auto unheard = std::exchange(state.unheard, {}); !unheard.view().empty())
    self->send(state.upstream, atom::report_v, unheard);
}

caf::result<frame> pass_farewell(pointer self, const frame& received) {
  auto farewell = unpack<messages::farewell>(received, "telemetry");
  if (!farewell)
    return caf::sec::invalid_argument;
  farewell->telemetry_seconds = self->state.seconds_spent;
  const auto completed = pack(*farewell);
  auto promise = self->make_response_promise<frame>();
  if (!self->state.upstream) {
    promise.deliver(completed);
    return promise;
  }
  self->request(self->state.upstream, self->state.upstream_timeout, atom::farewell_v, completed)
      .then([promise, completed](atom::farewell) mutable { promise.deliver(completed); },
            [promise, completed](const caf::error& error) mutable {
              spdlog::warn("farewell_not_heard error=\"{}\"", to_text(error));
              promise.deliver(completed);
            });
  return promise;
}

} // namespace

telemetry_actor::behavior_type telemetry(pointer self, const telemetry_options& options) {
  install_handlers(self, telemetry_state::name);
  self->state.meter = make_meter(options);
  self->state.upstream_timeout = options.upstream_timeout;
  return {
      [self](atom::report, const frame& report) { complete(self, report); },
      [self](atom::evaluation, const frame& report) {
        if (self->state.upstream)
          self->send(self->state.upstream, atom::evaluation_v, report);
      },
      [self](atom::settle) -> caf::result<atom::settle> {
        if (!self->state.upstream)
          return caf::sec::invalid_argument;
        return self->delegate(self->state.upstream, atom::settle_v);
      },
      [self](atom::farewell, const frame& received) { return pass_farewell(self, received); },
      [self](atom::upstream, aggregator_actor upstream) { find_upstream(self, std::move(upstream)); },
      [self](atom::orphan) { self->state.upstream = nullptr; },
  };
}

} // namespace dynamix::actors
