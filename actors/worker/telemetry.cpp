#include "actors/worker/telemetry.hpp"

#include "actors/handlers.hpp"
#include "actors/packing.hpp"
#include "messages/validation.hpp"
#include "storage/json_text.hpp"
#include "telemetry/survey.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace dynamix::actors {

namespace {

using telemetry_pointer = telemetry_actor::stateful_pointer<telemetry_state>;

using dynamix::telemetry::window_meter;

std::unique_ptr<window_meter> make_meter(const telemetry_options& options, int process) {
  const auto wants = [&](cluster::telemetry_source source) {
    return std::ranges::find(options.sources, source) != options.sources.end();
  };
  const dynamix::telemetry::wanted_sources wanted{.ebpf = wants(cluster::telemetry_source::ebpf),
                                                  .tcp_info = wants(cluster::telemetry_source::tcp_info),
                                                  .procfs = wants(cluster::telemetry_source::procfs),
                                                  .nvml = wants(cluster::telemetry_source::nvml)};
  // Before a training process has come nothing is measured that anybody asks for.
  const auto* kernel = options.kernel && options.kernel->of_another == (process != 0) ? options.kernel.get() : nullptr;
  return std::make_unique<window_meter>(process == 0
                                            ? dynamix::telemetry::choose_sources(wanted, kernel, options.control_ports)
                                            : dynamix::telemetry::choose_sources_of(process, wanted, kernel));
}

/// A training process that has come is measured from here on; one that has gone leaves its meter until the next.
void follow(telemetry_state& state) {
  const auto& trains = state.options.process;
  const int process = trains ? trains->load(std::memory_order_relaxed) : 0;
  if (process == 0 || process == state.process)
    return;
  state.process = process;
  state.meter = make_meter(state.options, process);
}

void measure(telemetry_state& state, messages::window_report& report) {
  auto measured = state.meter->close_window();
  report.network = measured.network;
  report.system = measured.system;
  report.gpu = measured.gpu;
  report.program_seconds = measured.program_seconds;
  report.telemetry_seconds = measured.sampling_seconds + measured.program_seconds;
  if (measured.choice.empty())
    return;
  spdlog::info("telemetry_chosen text={}", storage::quoted(measured.choice));
  report.telemetry_choice = messages::fit_text(measured.choice);
}

caf::result<message<messages::window_report>> complete(telemetry_state& state,
                                                       const message<messages::window_report>& received) {
  const auto said = unpack<messages::window_report>(received, "telemetry");
  if (!said)
    return caf::sec::invalid_argument;
  auto report = *said;
  follow(state);
  measure(state, report);
  return pack(std::move(report));
}

} // namespace

telemetry_actor::behavior_type telemetry(telemetry_pointer self, const telemetry_options& options) {
  install_handlers(self, telemetry_state::name);
  self->state.options = options;
  self->state.meter = make_meter(options, 0);
  follow(self->state);
  return {
      [self](atom::report, const message<messages::window_report>& report) { return complete(self->state, report); },
      [self](atom::settle) {
        follow(self->state);
        return atom::settle_v;
      },
  };
}

} // namespace dynamix::actors
