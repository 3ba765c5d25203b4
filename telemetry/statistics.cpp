#include "telemetry/probe.hpp"

#include <algorithm>
#include <chrono>

namespace dynamix::telemetry {

namespace {

std::uint64_t growth(std::uint64_t before, std::uint64_t after) {
  return after > before ? after - before : 0;
}

double growth(double before, double after) {
  return std::max(0.0, after - before);
}

class null_probe final : public probe {
public:
  std::string name() const override { return "none"; }
  void sample(counters&) override {}
};

} // namespace

std::unique_ptr<probe> make_null_probe() {
  return std::make_unique<null_probe>();
}

counters take_sample(const std::vector<std::unique_ptr<probe>>& probes) {
  counters now;
  now.monotonic_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  for (const auto& each : probes)
    each->sample(now);
  return now;
}

messages::network_statistics network_between(const counters& before, const counters& after) {
  messages::network_statistics statistics;
  const double seconds = after.monotonic_seconds - before.monotonic_seconds;
  if (!before.network_valid || !after.network_valid || !(seconds > 0))
    return statistics;
  const auto bytes = growth(before.bytes_sent, after.bytes_sent) + growth(before.bytes_received, after.bytes_received);
  statistics.valid = true;
  statistics.throughput_bytes_per_second = static_cast<double>(bytes) / seconds;
  statistics.rtt_seconds = std::max(0.0, after.rtt_seconds);
  statistics.retransmissions = growth(before.retransmissions, after.retransmissions);
  return statistics;
}

messages::system_statistics system_between(const counters& before, const counters& after) {
  messages::system_statistics statistics;
  const double seconds = after.monotonic_seconds - before.monotonic_seconds;
  if (!before.system_valid || !after.system_valid || !(seconds > 0))
    return statistics;
  statistics.valid = true;
  statistics.cpu_time_ratio = growth(before.cpu_seconds, after.cpu_seconds) / seconds;
  statistics.run_queue_wait_ratio = growth(before.run_queue_wait_seconds, after.run_queue_wait_seconds) / seconds;
  statistics.memory_ratio = std::clamp(after.memory_ratio, 0.0, 1.0);
  return statistics;
}

} // namespace dynamix::telemetry
