#include "telemetry/window_meter.hpp"

#include <time.h>
#include <utility>

namespace dynamix::telemetry {

namespace {

double thread_cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

} // namespace

window_meter::window_meter(std::vector<std::unique_ptr<probe>> probes)
    : probes_(std::move(probes)), before_(take_sample(probes_)) {}

window_measurement window_meter::close_window() {
  const double began = thread_cpu_seconds();
  const counters after = take_sample(probes_);
  window_measurement measured;
  measured.network = network_between(before_, after);
  measured.system = system_between(before_, after);
  before_ = after;
  measured.sampling_seconds = thread_cpu_seconds() - began;
  return measured;
}

} // namespace dynamix::telemetry
