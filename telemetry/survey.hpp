#pragma once

/// Which source measures each signal here, why no better one does, and what would make it.

#include "messages/types.hpp"
#include "telemetry/kernel_session.hpp"
#include "telemetry/privileges.hpp"
#include "telemetry/window_meter.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace dynamix::telemetry {

struct wanted_sources {
  bool ebpf = false;
  bool tcp_info = false;
  bool procfs = false;
  bool nvml = false;
};

/// The chains for a window_meter: of each signal what is wanted and can be had, the best first. `session` may be null.
std::vector<signal_chain> choose_sources(const wanted_sources& wanted, const kernel_session* session,
                                         const std::vector<std::uint16_t>& control_ports);

/// The same of another process, and what its own user may see of it. `session`: of another
/// (open_kernel_session_of_another).
std::vector<signal_chain> choose_sources_of(int process, const wanted_sources& wanted, const kernel_session* session);

/// What there is on a machine, for one process.
struct machine_facts {
  std::string missing_to_build; ///< of eBPF; empty: it is built in
  privileges may;
  bool may_mount = false;
  bool in_user_namespace = false;
  bool has_proc = true; ///< /proc and /sys are mounted
  bool has_sys = true;
  std::string network_problem;   ///< that trying to load the programs gave; empty: they load
  std::string scheduler_problem; ///< likewise
  std::string unified_cgroup;    ///< directory of the process's; empty: version 2 is not mounted
  std::string unified_mount;     ///< mounted there, or would go there
  bool tcp_info = false;
  bool procfs = false;
  bool pressure = false;
  bool has_grub = false;     ///< update-grub, as Debian has it
  std::string gpu_problem;   ///< empty: NVML works
  std::string program;       ///< path of the executable
  bool setcap_counts = true; ///< false: its file system is mounted nosuid, or this shell takes no new privileges
  unsigned user = 0;         ///< effective
  int shell = 0;             ///< process that started this one
};

struct source_status {
  std::string signal;
  messages::signal_source level = messages::signal_source::none;
  std::string source;  ///< "eBPF", "TCP_INFO", "procfs", "PSI", "NVML" or "none"
  std::string detail;  ///< what is measured, and why not by something better
  std::string command; ///< that would improve it, to be typed as it is; empty: none is known, or none is needed
};

/// Pure.
std::vector<source_status> advise(const machine_facts& facts);

/// Tries everything once. Enters a cgroup and leaves it again.
machine_facts survey_machine();

} // namespace dynamix::telemetry
