#pragma once

#include "telemetry/kernel_programs.hpp"
#include "telemetry/probe.hpp"

#include <memory>

namespace dynamix::telemetry {

/// The network by eBPF: bytes, segments, RTTs, congestion windows, retransmissions and resets of all sockets of the
/// process's cgroup, those that live for less than a window too. How long senders were blocked no program may read
/// without CAP_PERFMON, so that is `tcp_info`'s. Fails when bytes move and no program runs. Logs resets and
/// retransmission bursts.
std::unique_ptr<probe> make_ebpf_network_probe(std::shared_ptr<network_programs> programs,
                                               std::unique_ptr<probe> tcp_info);

/// The network of another process: what TCP_INFO tells of its sockets (make_process_tcp_info_probe), and by eBPF the
/// RTTs, congestion windows and resets of those that were connected since the programs were loaded. Fails where it
/// sends and no RTT is sampled for seconds. Logs as above.
std::unique_ptr<probe> make_ebpf_connection_probe(std::shared_ptr<network_programs> programs, int process);

/// The system by eBPF: every thread's waits, and where the training thread's time went to the moment; of another
/// process, if `process` is not 0, whose main thread is taken for the one that trains. CPU time, memory and page faults
/// are `usage`'s. Fails when no program runs in a window.
std::unique_ptr<probe> make_ebpf_scheduler_probe(std::shared_ptr<scheduler_programs> programs,
                                                 std::unique_ptr<probe> usage, int process = 0);

/// Run time of programs in seconds, from the runs that they timed.
double run_seconds(const program_cost& total);

} // namespace dynamix::telemetry
