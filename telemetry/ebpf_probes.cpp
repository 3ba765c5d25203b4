#include "telemetry/ebpf_probes.hpp"

#include "telemetry/training_thread.hpp"

#include <spdlog/spdlog.h>

#include <arpa/inet.h>
#include <cstdint>
#include <utility>

namespace dynamix::telemetry {
namespace {

constexpr double seconds_per_ns = 1e-9;
constexpr std::uint64_t bytes_unseen_max = 64U << 10;   ///< less may pass without a run of a program
constexpr std::uint64_t bytes_unsampled_max = 1U << 20; ///< less may be sent without a sample of the RTT
constexpr double unsampled_seconds_max = 3;
constexpr double quiet_seconds_max = 0.2; ///< no process goes without a switch for longer while it is asked

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

/// Logs what happens rarely.
class event_log {
public:
  void write(network_programs& programs) {
    for (const auto& event : programs.take_events())
      log_event(event);
    if (const auto dropped = programs.events_dropped(); dropped > dropped_)
      spdlog::warn("network_events_dropped count={}", dropped - std::exchange(dropped_, dropped));
  }

private:
  std::uint64_t dropped_ = 0;
};

/// What TCP_INFO cannot tell.
void add_round_trips_and_resets(const network_slot& slot, counters& into) {
  into.resets += slot.resets;
  into.rtt_samples += slot.rtt_samples;
  into.rtt_sum_us += slot.rtt_sum_us;
  into.congestion_window_sum += slot.congestion_window_sum;
  for (std::size_t i = 0; i < into.rtts.size(); ++i)
    into.rtts[i] += slot.rtt_histogram[i];
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
      add_round_trips_and_resets(slot, into);
    }
    into.network_source = messages::signal_source::ebpf;
    into.network_valid = cost.runs > runs_ || bytes_seen <= bytes_seen_ + bytes_unseen_max;
    into.program_seconds += run_seconds(cost);
    runs_ = cost.runs;
    bytes_seen_ = bytes_seen;
    events_.write(*programs_);
  }

private:
  std::shared_ptr<network_programs> programs_;
  std::unique_ptr<probe> tcp_info_;
  event_log events_;
  std::uint64_t runs_ = 0;
  /// What passed before the first sample says nothing.
  std::uint64_t bytes_seen_ = UINT64_MAX - bytes_unseen_max;
};

/// What only programs see of another process's connections, over what TCP_INFO says of them.
class ebpf_connection_probe final : public probe {
public:
  ebpf_connection_probe(std::shared_ptr<network_programs> programs, int process)
      : programs_(std::move(programs)),
        tcp_info_(make_process_tcp_info_probe(
            process, [counting = programs_.get()](const auto& cookies) { counting->follow(cookies); })) {}

  std::string name() const override { return "eBPF"; }
  std::string problem() const override {
    return tcp_info_valid_
               ? "no RTT was sampled while data was sent: the training process's connections are older than "
                 "the programs in the kernel"
               : tcp_info_->problem();
  }

  void sample(counters& into) override {
    tcp_info_->sample(into);
    tcp_info_valid_ = into.network_valid;
    program_cost cost{};
    for (const auto& slot : programs_->slots()) {
      add(cost, slot.cost);
      add_round_trips_and_resets(slot, into);
    }
    into.program_seconds += run_seconds(cost);
    into.network_source = messages::signal_source::ebpf;
    if (into.rtt_samples > rtt_samples_ || !sampled_) {
      sampled_ = true;
      rtt_samples_ = into.rtt_samples;
      rtt_seconds_ = into.monotonic_seconds;
      bytes_sent_ = into.bytes_sent;
    }
    // Sockets that have come since the last listing are not known yet.
    into.network_valid = tcp_info_valid_ && (into.bytes_sent <= bytes_sent_ + bytes_unsampled_max ||
                                             into.monotonic_seconds < rtt_seconds_ + unsampled_seconds_max);
    events_.write(*programs_);
  }

private:
  std::shared_ptr<network_programs> programs_;
  std::unique_ptr<probe> tcp_info_;
  event_log events_;
  bool tcp_info_valid_ = false;
  bool sampled_ = false;
  std::uint64_t rtt_samples_ = 0; ///< as of the last sample in which one had come, as are the next two
  double rtt_seconds_ = 0;
  std::uint64_t bytes_sent_ = 0;
};

class ebpf_scheduler_probe final : public probe {
public:
  /// `process`: another one; 0: this.
  ebpf_scheduler_probe(std::shared_ptr<scheduler_programs> programs, std::unique_ptr<probe> usage, int process)
      : programs_(std::move(programs)), usage_(std::move(usage)), process_(process) {
    if (process_ != 0)
      programs_->follow_process(process_);
  }

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
    // Of another process that has ended there is nothing to read, although programs run.
    into.system_valid = (process_ == 0 || into.system_valid) &&
                        (cost.runs > runs_ || into.monotonic_seconds < sampled_seconds_ + quiet_seconds_max);
    into.program_seconds += run_seconds(cost);
    runs_ = cost.runs;
    sampled_seconds_ = into.monotonic_seconds;
    add_training(into);
  }

private:
  void add_training(counters& into) {
    auto clock = programs_->training();
    if (process_ == 0) {
      into.training_thread = training_thread.load(std::memory_order_relaxed);
      programs_->follow(into.training_thread);
    } else {
      into.training_thread = clock.process == process_ ? process_ : 0; // its main thread, once it has been seen
    }
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
  int process_;
  std::uint64_t runs_ = 0;
  double sampled_seconds_ = monotonic_seconds();
};

} // namespace

std::unique_ptr<probe> make_ebpf_network_probe(std::shared_ptr<network_programs> programs,
                                               std::unique_ptr<probe> tcp_info) {
  return std::make_unique<ebpf_network_probe>(std::move(programs), std::move(tcp_info));
}

std::unique_ptr<probe> make_ebpf_connection_probe(std::shared_ptr<network_programs> programs, int process) {
  return std::make_unique<ebpf_connection_probe>(std::move(programs), process);
}

std::unique_ptr<probe> make_ebpf_scheduler_probe(std::shared_ptr<scheduler_programs> programs,
                                                 std::unique_ptr<probe> usage, int process) {
  return std::make_unique<ebpf_scheduler_probe>(std::move(programs), std::move(usage), process);
}

double run_seconds(const program_cost& total) {
  if (total.timed_runs == 0)
    return 0;
  const auto each_ns = static_cast<double>(total.timed_ns) / static_cast<double>(total.timed_runs);
  return seconds_per_ns * each_ns * static_cast<double>(total.runs);
}

} // namespace dynamix::telemetry
