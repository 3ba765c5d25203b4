#include "actors/telemetry.hpp"

#include "actors/handlers.hpp"
#include "actors/packing.hpp"

#include <spdlog/spdlog.h>

namespace dynamix::actors {

namespace {

using pointer = telemetry_actor::stateful_pointer<telemetry_state>;

std::unique_ptr<dynamix::telemetry::window_meter> make_meter(const std::vector<cluster::telemetry_source>& sources) {
  std::vector<std::unique_ptr<dynamix::telemetry::probe>> probes;
  for (const auto source : sources)
    if (source == cluster::telemetry_source::tcp_info)
      probes.push_back(dynamix::telemetry::make_tcp_info_probe());
    else if (source == cluster::telemetry_source::procfs)
      probes.push_back(dynamix::telemetry::make_procfs_probe());
  return std::make_unique<dynamix::telemetry::window_meter>(std::move(probes));
}

void complete(pointer self, const frame& received) {
  auto& state = self->state;
  auto report = unpack<messages::window_report>(received, "telemetry");
  if (!report)
    return;
  const auto measured = state.meter->close_window();
  report->network = measured.network;
  report->system = measured.system;
  report->telemetry_seconds = measured.sampling_seconds;
  state.seconds_spent += measured.sampling_seconds;
  if (state.upstream)
    self->send(state.upstream, atom::report_v, pack(*report));
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

telemetry_actor::behavior_type telemetry(pointer self, std::vector<cluster::telemetry_source> sources,
                                         std::chrono::milliseconds upstream_timeout) {
  install_handlers(self, telemetry_state::name);
  self->state.meter = make_meter(sources);
  self->state.upstream_timeout = upstream_timeout;
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
      [self](atom::upstream, aggregator_actor upstream) { self->state.upstream = std::move(upstream); },
      [self](atom::orphan) { self->state.upstream = nullptr; },
  };
}

} // namespace dynamix::actors
