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

/// What a time grew by, over the window; no more than all of it.
double share(double before, double after, double seconds) {
  return std::clamp((after - before) / seconds, 0.0, 1.0);
}

/// The middle of a bucket.
double bucket_seconds(std::size_t bucket) {
  const auto octave = bucket / rtt_octave_buckets;
  const auto fraction = (static_cast<double>(bucket % rtt_octave_buckets) + 0.5) / double{rtt_octave_buckets};
  return 1e-6 * static_cast<double>(std::uint64_t{1} << octave) * (1 + fraction);
}

/// The smallest RTT that `quantile` of those between two samples do not exceed, to a sixteenth; 0 without any.
double rtt_quantile(const rtt_histogram& before, const rtt_histogram& after, double quantile) {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < after.size(); ++i)
    total += growth(before[i], after[i]);
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < after.size(); ++i) {
    seen += growth(before[i], after[i]);
    if (seen > 0 && static_cast<double>(seen) >= quantile * static_cast<double>(total))
      return bucket_seconds(i);
  }
  return 0;
}

void add_round_trips(const counters& before, const counters& after, messages::network_statistics& statistics) {
  statistics.rtt_seconds = std::max(0.0, after.rtt_seconds);
  statistics.rtt_p50_seconds = std::max(0.0, after.rtt_p50_seconds);
  statistics.rtt_p99_seconds = std::max(0.0, after.rtt_p99_seconds);
  statistics.congestion_window_segments = std::max(0.0, after.congestion_window_segments);
  const auto samples = static_cast<double>(growth(before.rtt_samples, after.rtt_samples));
  if (!(samples > 0)) // none were taken, or only the sockets' own were
    return;
  statistics.rtt_seconds = 1e-6 * static_cast<double>(growth(before.rtt_sum_us, after.rtt_sum_us)) / samples;
  statistics.rtt_p50_seconds = rtt_quantile(before.rtts, after.rtts, 0.5);
  statistics.rtt_p99_seconds = rtt_quantile(before.rtts, after.rtts, 0.99);
  statistics.congestion_window_segments =
      static_cast<double>(growth(before.congestion_window_sum, after.congestion_window_sum)) / samples;
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

std::string_view to_string(signal of) {
  constexpr std::string_view names[] = {"network", "system", "pressure", "gpu"};
  return names[static_cast<std::size_t>(of)];
}

bool is_valid(const counters& sampled, signal of) {
  switch (of) {
  case signal::network:
    return sampled.network_valid;
  case signal::system:
    return sampled.system_valid;
  case signal::pressure:
    return sampled.pressure_valid;
  case signal::gpu:
    return sampled.gpu.valid;
  }
  return false;
}

double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

messages::network_statistics network_between(const counters& before, const counters& after) {
  messages::network_statistics statistics{.source = messages::signal_source::none};
  const double seconds = after.monotonic_seconds - before.monotonic_seconds;
  if (!before.network_valid || !after.network_valid || before.network_source != after.network_source || !(seconds > 0))
    return statistics;
  const auto bytes = growth(before.bytes_sent, after.bytes_sent) + growth(before.bytes_received, after.bytes_received);
  const auto control = std::min(bytes, growth(before.control_bytes, after.control_bytes));
  statistics.valid = true;
  statistics.source = after.network_source;
  statistics.throughput_bytes_per_second = static_cast<double>(bytes) / seconds;
  statistics.control_bytes_per_second = static_cast<double>(control) / seconds;
  statistics.gradient_bytes_per_second = static_cast<double>(bytes - control) / seconds;
  statistics.retransmissions = growth(before.retransmissions, after.retransmissions);
  statistics.segments_sent = growth(before.segments_sent, after.segments_sent);
  statistics.connection_resets = growth(before.resets, after.resets);
  statistics.sender_blocked_ratio = growth(before.sender_blocked_seconds, after.sender_blocked_seconds) / seconds;
  statistics.receiver_blocked_ratio = growth(before.receiver_blocked_seconds, after.receiver_blocked_seconds) / seconds;
  statistics.connections = after.connections;
  add_round_trips(before, after, statistics);
  return statistics;
}

messages::system_statistics system_between(const counters& before, const counters& after) {
  messages::system_statistics statistics{.source = messages::signal_source::none};
  const double seconds = after.monotonic_seconds - before.monotonic_seconds;
  if (!(seconds > 0))
    return statistics;
  statistics.cgroup_memory_bytes = after.cgroup_memory_bytes;
  statistics.throttled_ratio = std::max(0.0, after.throttled_ratio);
  if (before.pressure_valid && after.pressure_valid) {
    statistics.pressure_valid = true;
    statistics.cpu_pressure_ratio = std::clamp(after.cpu_pressure_ratio, 0.0, 1.0);
    statistics.memory_pressure_ratio = std::clamp(after.memory_pressure_ratio, 0.0, 1.0);
    statistics.io_pressure_ratio = std::clamp(after.io_pressure_ratio, 0.0, 1.0);
  }
  if (!before.system_valid || !after.system_valid || before.system_source != after.system_source)
    return statistics;
  statistics.valid = true;
  statistics.source = after.system_source;
  statistics.cpu_time_ratio = growth(before.cpu_seconds, after.cpu_seconds) / seconds;
  statistics.run_queue_wait_ratio = growth(before.run_queue_wait_seconds, after.run_queue_wait_seconds) / seconds;
  statistics.memory_ratio = std::clamp(after.memory_ratio, 0.0, 1.0);
  statistics.involuntary_switches = growth(before.involuntary_switches, after.involuntary_switches);
  statistics.page_faults = growth(before.page_faults, after.page_faults);
  statistics.major_page_faults = growth(before.major_page_faults, after.major_page_faults);
  if (after.training_thread == 0 || before.training_thread != after.training_thread)
    return statistics;
  statistics.training_valid = true;
  statistics.training_cpu_ratio = share(before.training_cpu_seconds, after.training_cpu_seconds, seconds);
  statistics.training_wait_ratio = share(before.training_wait_seconds, after.training_wait_seconds, seconds);
  statistics.training_stalled_ratio = share(before.training_stalled_seconds, after.training_stalled_seconds, seconds);
  return statistics;
}

} // namespace dynamix::telemetry
