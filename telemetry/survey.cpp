#include "telemetry/probe.hpp"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace dynamix::telemetry {

std::vector<source_status> survey_sources() {
  // An unconnected socket is enough to see whether the kernel's tcp_info has byte counts.
  const int socket_of_own = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  counters sampled;
  make_tcp_info_probe()->sample(sampled);
  make_procfs_probe()->sample(sampled);
  if (socket_of_own >= 0)
    close(socket_of_own);

  source_status network{"network", "TCP_INFO", socket_of_own >= 0 && sampled.network_valid, ""};
  network.detail = network.available ? "throughput, RTT and retransmissions of the process's own TCP sockets"
                                     : "needs /proc/self/fd and Linux 4.1 or later (TCP_INFO with byte counts)";
  source_status system{"system", "procfs", sampled.system_valid, ""};
  system.detail = system.available
                      ? "CPU time, run-queue wait and memory of the process"
                      : "needs /proc/self/statm and /proc/self/task/*/schedstat (a kernel with CONFIG_SCHED_INFO)";
  return {network, system};
}

} // namespace dynamix::telemetry
