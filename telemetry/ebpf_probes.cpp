#include "telemetry/ebpf_probes.hpp"

#include "telemetry/training_thread.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <arpa/inet.h>
#include <cstdint>
#include <utility>

namespace dynamix::telemetry {
namespace {

constexpr double seconds_per_ns = 1e-9;
constexpr std::uint64_t bytes_unseen_max = 64U << 10; ///< less may pass without a run of a program
constexpr double quiet_seconds_max = 0.2;             ///< no process goes without a switch for longer while it is asked

void add(program_cost& total, const program_cost& cost) {
  total.runs += cost.runs;
  total.timed_runs += cost.timed_runs;
  total.timed_ns += cost.timed_ns;
}

void log_event(const network_event& event) {
  char address[INET6_ADDRSTRLEN] = "?";
  ::inet_ntop(static_cast<int>(event.family), event.address, address, sizeof(address));
  if (event.kind == connection_reset)
    spdlog::warn("connection_reset local_port={} peer={} peer_port={}", event.local_port, address, event.remote_port);
  else
    spdlog::warn("retransmission_burst local_port={} peer={} peer_port={} segments={}", event.local_port, address,
                 event.remote_port, event.segments);
}

class ebpf_network_probe final : public probe {
public:
  ebpf_network_probe(std::shared_ptr<network_programs> programs, std::unique_ptr<probe> tcp_info)
      : programs_(std::move(programs)), tcp_info_(std::move(tcp_info)) {}

  std::string name() const override { return "eBPF"; }
  std::string problem() const override { return "the network programs in the kernel no longer run"; }

  void sample(counters& into) override {
    tcp_info_->sample(into);
    const auto bytes_seen = into.bytes_sent + into.bytes_received;
    into.bytes_sent = into.bytes_received = into.control_bytes = into.segments_sent = into.retransmissions = 0;
    program_cost cost{};
    for (const auto& slot : programs_->slots()) {
      add(cost, slot.cost);
      into.bytes_sent += slot.bytes_sent;
      into.bytes_received += slot.bytes_received;
      into.control_bytes += slot.control_bytes;
      into.segments_sent += slot.segments_sent;
      into.retransmissions += slot.retransmissions;
      into.resets += slot.resets;
      into.rtt_samples += slot.rtt_samples;
      into.rtt_sum_us += slot.rtt_sum_us;
      into.congestion_window_sum += slot.congestion_window_sum;
      for (std::size_t i = 0; i < into.rtts.size(); ++i)
        into.rtts[i] += slot.rtt_histogram[i];
    }
    into.network_source = messages::signal_source::ebpf;
    into.network_valid = cost.runs > runs_ || bytes_seen <= bytes_seen_ + bytes_unseen_max;
    into.program_seconds += run_seconds(cost);
    runs_ = cost.runs;
    bytes_seen_ = bytes_seen;
    tell();
  }

private:
  void tell() {
    for (const auto& event : programs_->take_events())
      log_event(event);
    if (const auto dropped = programs_->events_dropped(); dropped > dropped_)
      spdlog::warn("network_events_dropped count={}", dropped - std::exchange(dropped_, dropped));
  }

  std::shared_ptr<network_programs> programs_;
  std::unique_ptr<probe> tcp_info_;
  std::uint64_t runs_ = 0;
  /// What passed before the first sample says nothing.
  std::uint64_t bytes_seen_ = UINT64_MAX - bytes_unseen_max;
  std::uint64_t dropped_ = 0;
};

class ebpf_scheduler_probe final : public probe {
public:
  ebpf_scheduler_probe(std::shared_ptr<scheduler_programs> programs, std::unique_ptr<probe> usage)
      : programs_(std::move(programs)), usage_(std::move(usage)) {}

  std::string name() const override { return "eBPF"; }
  std::string problem() const override { return "the scheduler programs in the kernel no longer run"; }

  void sample(counters& into) override {
    usage_->sample(into);
    program_cost cost{};
    std::uint64_t waited_ns = 0;
    into.involuntary_switches = 0;
    for (const auto& slot : programs_->slots()) {
      add(cost, slot.cost);
      waited_ns += slot.activity_ns[thread_waiting];
      into.involuntary_switches += slot.involuntary_switches;
    }
    into.run_queue_wait_seconds = seconds_per_ns * static_cast<double>(waited_ns);
    into.system_source = messages::signal_source::ebpf;
    into.system_valid = cost.runs > runs_ || into.monotonic_seconds < sampled_seconds_ + quiet_seconds_max;
    into.program_seconds += run_seconds(cost);
    runs_ = cost.runs;
    sampled_seconds_ = into.monotonic_seconds;
    add_training(into);
  }

private:
  void add_training(counters& into) {
    const int thread = training_thread.load(std::memory_order_relaxed);
    programs_->follow(thread);
    into.training_thread = thread;
    auto clock = programs_->training();
    // The activity that goes on has not been counted yet.
    const double now_ns = into.monotonic_seconds / seconds_per_ns - static_cast<double>(clock.ahead_ns);
    if (clock.since_ns > 0 && clock.activity < thread_activities && now_ns > static_cast<double>(clock.since_ns))
      clock.activity_ns[clock.activity] += static_cast<std::uint64_t>(now_ns - static_cast<double>(clock.since_ns));
    const auto seconds = [&](thread_activity of) {
      return seconds_per_ns * static_cast<double>(clock.activity_ns[of]);
    };
    into.training_cpu_seconds = seconds(thread_running);
    into.training_wait_seconds = seconds(thread_waiting);
    into.training_stalled_seconds = seconds(thread_stalled);
  }

  std::shared_ptr<scheduler_programs> programs_;
  std::unique_ptr<probe> usage_;
  std::uint64_t runs_ = 0;
  double sampled_seconds_ = monotonic_seconds();
};

} // namespace

std::unique_ptr<probe> make_ebpf_network_probe(std::shared_ptr<network_programs> programs,
                                               std::unique_ptr<probe> tcp_info) {
  return std::make_unique<ebpf_network_probe>(std::move(programs), std::move(tcp_info));
}

std::unique_ptr<probe> make_ebpf_scheduler_probe(std::shared_ptr<scheduler_programs> programs,
                                                 std::unique_ptr<probe> usage) {
  return std::make_unique<ebpf_scheduler_probe>(std::move(programs), std::move(usage));
}

double run_seconds(const program_cost& total) {
  if (total.timed_runs == 0)
    return 0;
  const auto each_ns = static_cast<double>(total.timed_ns) / static_cast<double>(total.timed_runs);
  return seconds_per_ns * each_ns * static_cast<double>(total.runs);
}

} // namespace dynamix::telemetry
