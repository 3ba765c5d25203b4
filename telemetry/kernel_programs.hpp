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
};

class scheduler_programs {
public:
  virtual ~scheduler_programs() = default;
  virtual std::span<const scheduler_slot> slots() const = 0;
  /// A copy that was not written to meanwhile.
  virtual training_clock training() const = 0;
  /// From now on `training` is this thread's, which is of this process. 0: none.
  virtual void follow(int thread) = 0;
};

/// What eBPF would take that the build did not have; empty where it is built in.
std::string missing_to_build();

/// Counts the traffic of sockets that are made in the cgroup. Takes CAP_BPF and CAP_NET_ADMIN. Null with the reason in
/// `problem`.
std::unique_ptr<network_programs>
load_network_programs(int cgroup_descriptor, const std::vector<std::uint16_t>& control_ports, std::string& problem);
/// Follows all threads of the calling process. Takes CAP_BPF and CAP_PERFMON. Null with the reason in `problem`.
std::unique_ptr<scheduler_programs> load_scheduler_programs(std::string& problem);

} // namespace dynamix::telemetry
