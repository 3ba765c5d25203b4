#pragma once

#include "bpf/network.h"
#include "messages/types.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace dynamix::telemetry {

/// RTTs of a process's connections, counted by size: bucket 8 * o + f holds those from 2^o * (1 + f/8) microseconds.
using rtt_histogram = std::array<std::uint64_t, rtt_buckets>;

/// What changes slowly, or is the whole machine's, is read anew where the last reading is so old. A window that ends
/// earlier has what was read last: reading half a dozen files costs as much as all that changes fast.
inline constexpr double slow_signal_seconds = 0.5;

/// Counters of one process since its start; a window's statistics are differences of two of these.
struct counters {
  double monotonic_seconds = 0;

  bool network_valid = false;
  messages::signal_source network_source = messages::signal_source::none;
  std::uint64_t bytes_sent = 0; ///< TCP_INFO: and acknowledged, so that a repeated segment counts once
  std::uint64_t bytes_received = 0;
  std::uint64_t control_bytes = 0;   ///< of both, on connections that carry no gradients
  std::uint64_t segments_sent = 0;   ///< with data
  std::uint64_t retransmissions = 0; ///< segments
  std::uint64_t resets = 0;          ///< connections
  double sender_blocked_seconds = 0; ///< with gradients sent but not delivered, all connections
  double receiver_blocked_seconds = 0;
  rtt_histogram rtts{}; ///< of connections that carry gradients, as is the rest; eBPF only
  std::uint64_t rtt_samples = 0;
  std::uint64_t rtt_sum_us = 0;
  std::uint64_t congestion_window_sum = 0; ///< segments, over the RTT samples
  double rtt_seconds = 0;                  ///< a level, not a count: mean of the open sockets that have one
  double rtt_p50_seconds = 0;              ///< a level, as are the next ones
  double rtt_p99_seconds = 0;
  double congestion_window_segments = 0;
  std::uint32_t connections = 0;

  bool system_valid = false;
  messages::signal_source system_source = messages::signal_source::none;
  double cpu_seconds = 0;            ///< user and system, all threads; of another process with what it has started
  double run_queue_wait_seconds = 0; ///< all threads
  double memory_ratio = 0;           ///< a level: resident set over physical memory
  int training_thread = 0;           ///< of which the next three are; 0: not measured
  double training_cpu_seconds = 0;
  double training_wait_seconds = 0;
  double training_stalled_seconds = 0;
  std::uint64_t involuntary_switches = 0;
  std::uint64_t page_faults = 0;
  std::uint64_t major_page_faults = 0;

  std::uint64_t cgroup_memory_bytes = 0; ///< a level, as are the next ones
  double throttled_ratio = 0;            ///< over wall time, since the reading before the last one, as are the others
  bool pressure_valid = false;
  double cpu_pressure_ratio = 0;
  double memory_pressure_ratio = 0;
  double io_pressure_ratio = 0;

  messages::gpu_statistics gpu; ///< a level

  double program_seconds = 0; ///< run time of programs in the kernel
};

/// What a probe measures. Each has a flag in `counters` that says whether it was.
enum class signal : std::uint8_t { network, system, pressure, gpu };
std::string_view to_string(signal of);
bool is_valid(const counters& sampled, signal of);

/// One source of a signal. `sample` fills in its own fields of `into` and leaves the others; it never throws: a signal
/// that cannot be read leaves its valid flag false. Not thread-safe: one probe is sampled by one thread at a time.
class probe {
public:
  virtual ~probe() = default;
  virtual std::string name() const = 0;
  virtual void sample(counters& into) = 0;
  /// Why the last sample is not valid, for a person.
  virtual std::string problem() const { return name() + " cannot be read"; }
};

/// TCP_INFO of this process's own TCP sockets (found through /proc/self/fd, the first 4096 descriptors). Needs no
/// privilege. Keeps the counts of sockets that have gone, so that totals never fall; what a socket moves between the
/// last sample and its close is not seen. A connection of the process to itself counts at both of its ends. Connections
/// with one of `control_ports` at either end carry no gradients, unless their priority says so (bpf/network.h).
std::unique_ptr<probe> make_tcp_info_probe(std::vector<std::uint16_t> control_ports = {});
/// The same of connections that carry gradients alone, which is cheaper.
std::unique_ptr<probe> make_gradient_tcp_info_probe(std::vector<std::uint16_t> control_ports);
/// The same of another process's sockets, through NETLINK_SOCK_DIAG and /proc/PID/fd. Takes the process's own user. All
/// of them carry gradients. `told` gets the cookies of its sockets at each sample.
using sockets_teller = std::function<void(const std::vector<std::uint64_t>& cookies)>;
std::unique_ptr<probe> make_process_tcp_info_probe(int process, sockets_teller told = {});
/// getrusage and /proc/self/statm, or /proc/PID/stat and statm of another process: CPU time, memory, page faults, and
/// no waits. The CPU time of another process is with that of the processes which its main thread has started (loader
/// workers), and theirs, but for those that this process is among.
std::unique_ptr<probe> make_usage_probe(int process = 0);
/// The same, and the waits of /proc/self/task/*/schedstat (the first 512 threads). Needs no privilege.
/// Keeps the waits of threads that have ended; what a thread waits between the last sample and its end is not seen.
/// Of another process (0: this one) the main thread is taken for the one that trains.
std::unique_ptr<probe> make_procfs_probe(int process = 0);
/// PSI of the machine (/proc/pressure), memory and CPU quota of the process's cgroup, version 1 or 2. 0: this process.
std::unique_ptr<probe> make_pressure_probe(int process = 0);
/// The machine's GPUs through NVML, which is looked for at run time. Of another process: those that it computes on,
/// once it does and NVML tells (not from within most containers); until then the machine's.
std::unique_ptr<probe> make_nvml_probe(int process = 0);
/// Measures nothing; every signal is masked.
std::unique_ptr<probe> make_null_probe();

/// CLOCK_MONOTONIC.
double monotonic_seconds();

/// The change between two samples as the statistics of a window. Pure. Not valid where a sample is not, or where the
/// window has no length; a count that falls counts as no change, so nothing here is ever negative.
messages::network_statistics network_between(const counters& before, const counters& after);
messages::system_statistics system_between(const counters& before, const counters& after);

} // namespace dynamix::telemetry
