#pragma once

/// What counts in the kernel, behind interfaces that a test can fake. Programs run as long as their object lives; the
/// kernel takes them away when the process ends, however it does.

#include "bpf/network.h"
#include "bpf/scheduler.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dynamix::telemetry {

class network_programs {
public:
  virtual ~network_programs() = default;
  /// One a CPU, only rising. The kernel writes while they are read.
  virtual std::span<const network_slot> slots() const = 0;
  /// What has happened since the last call, and how often there was no room to tell.
  virtual std::vector<network_event> take_events() = 0;
  virtual std::uint64_t events_dropped() const = 0;
  /// From now on these sockets count, by their cookies, and no others: of programs that count by cookie. Some may be
  /// left out where there are thousands.
  virtual void follow(std::span<const std::uint64_t> cookies) = 0;
};

class scheduler_programs {
public:
  virtual ~scheduler_programs() = default;
  virtual std::span<const scheduler_slot> slots() const = 0;
  /// A copy that was not written to meanwhile.
  virtual training_clock training() const = 0;
  /// From now on `training` is this thread's, which is of this process. 0: none.
  virtual void follow(int thread) = 0;
  /// From now on all this is another process's, and `training` its main thread's, from when it next gets a CPU on.
  virtual void follow_process(int process) = 0;
};

/// What eBPF would take that the build did not have; empty where it is built in.
std::string missing_to_build();

/// Counts the traffic of sockets that are made in the cgroup. Takes CAP_BPF and CAP_NET_ADMIN. Null with the reason in
/// `problem`.
std::unique_ptr<network_programs>
load_network_programs(int cgroup_descriptor, const std::vector<std::uint16_t>& control_ports, std::string& problem);
/// Watches the connections that are made from now on by whoever is in the cgroup or below: RTTs, retransmissions and
/// resets of the sockets that `follow` names, and no bytes. Takes the same.
std::unique_ptr<network_programs> load_connection_programs(int cgroup_descriptor, std::string& problem);
/// Follows all threads of the calling process, or of another one. Takes CAP_BPF and CAP_PERFMON. Null with the reason
/// in `problem`.
std::unique_ptr<scheduler_programs> load_scheduler_programs(std::string& problem);

} // namespace dynamix::telemetry
