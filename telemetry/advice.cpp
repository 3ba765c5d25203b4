#include "telemetry/survey.hpp"

#include <fmt/core.h>

namespace dynamix::telemetry {
namespace {

using messages::signal_source;

/// A command that takes root. A container has no sudo, and whoever is root needs none.
std::string as_root(const machine_facts& facts, const std::string& command) {
  return facts.user == 0 ? command : "sudo sh -c '" + command + "'";
}

/// What an engine must be told that has taken something from a container's root.
std::string container_with(const std::string& more) {
  return "docker run " + more + "--cap-add BPF --cap-add PERFMON --cap-add NET_ADMIN ...";
}

std::string grant(const machine_facts& facts) {
  if (facts.user == 0) // whose container, service or shell holds them back
    return container_with("");
  if (facts.setcap_counts)
    return "sudo setcap cap_bpf,cap_perfmon,cap_net_admin=ep " + facts.program;
  const std::string granted = "+bpf,+perfmon,+net_admin";
  return "sudo setpriv --reuid $(id -u) --regid $(id -g) --init-groups --inh-caps " + granted + " --ambient-caps " +
         granted + " " + facts.program + " ...";
}

std::string build_with(const machine_facts& facts) {
  if (facts.missing_to_build.starts_with("DYNAMIX_BPF"))
    return "cmake --preset release -DDYNAMIX_BPF=ON && cmake --build --preset release";
  return "sudo apt-get install clang bpftool libbpf-dev && cmake --preset release --fresh && cmake --build --preset "
         "release";
}

std::string mount_proc(const machine_facts& facts) {
  return as_root(facts, "mount -t proc proc /proc");
}

/// A group that the user may divide, with the shell in it from which the program is started.
std::string own_group(const machine_facts& facts) {
  const auto group = (facts.unified_cgroup == "/" ? "" : facts.unified_cgroup) + "/dynamix";
  return as_root(facts, fmt::format("mkdir -p {} && chown -R {} {} && echo {} > {}/cgroup.procs", group, facts.user,
                                    group, facts.shell, group));
}

/// Version 2 that can be written to. A container's root cannot mount it; its engine can.
std::string usable_groups(const machine_facts& facts) {
  if (facts.user == 0 && !facts.may_mount)
    return container_with("--cgroupns host --volume /sys/fs/cgroup:/sys/fs/cgroup ");
  if (facts.unified_cgroup.empty())
    return as_root(facts, "mkdir -p " + facts.unified_mount + " && mount -t cgroup2 cgroup2 " + facts.unified_mount);
  return as_root(facts, "mount -o remount,rw,bind " + facts.unified_mount);
}

std::string network_command(const machine_facts& facts) {
  if (!facts.missing_to_build.empty())
    return build_with(facts);
  if (!facts.has_proc)
    return mount_proc(facts);
  if (facts.in_user_namespace)
    return "";
  if (!facts.may.bpf || !facts.may.net_admin)
    return grant(facts);
  if (facts.unified_cgroup.empty() || facts.network_problem.find("Read-only") != std::string::npos)
    return usable_groups(facts);
  // Whatever else the kernel refuses has no remedy that is known here.
  return facts.user != 0 && facts.network_problem.find("cgroup") != std::string::npos ? own_group(facts) : "";
}

std::string scheduler_command(const machine_facts& facts) {
  if (!facts.missing_to_build.empty())
    return build_with(facts);
  if (!facts.has_proc && !facts.procfs)
    return mount_proc(facts);
  if (facts.in_user_namespace)
    return "";
  if (!facts.may.bpf || !facts.may.perfmon)
    return grant(facts);
  return facts.has_sys ? "" : as_root(facts, "mount -t sysfs sysfs /sys");
}

std::string pressure_command(const machine_facts& facts) {
  if (!facts.has_proc)
    return mount_proc(facts);
  const std::string sudo = facts.user == 0 ? "" : "sudo ";
  if (!facts.has_grub)
    return sudo + "grubby --update-kernel=ALL --args=psi=1 # or psi=1 on the kernel's command line, and boot";
  return sudo + "sed -i 's/^GRUB_CMDLINE_LINUX=\"/&psi=1 /' /etc/default/grub && " + sudo + "update-grub # and boot";
}

source_status network(const machine_facts& facts) {
  if (facts.network_problem.empty())
    return {"network", signal_source::ebpf, "eBPF",
            "bytes, RTT p50 and p99, retransmissions, congestion window and resets of all the process's connections; "
            "how long senders are blocked by TCP_INFO"};
  const auto why = "; not eBPF: " + facts.network_problem;
  if (facts.tcp_info)
    return {"network", signal_source::unprivileged, "TCP_INFO",
            "bytes, RTT, retransmissions and blocked senders of the connections that are open at a window's end" + why,
            network_command(facts)};
  return {"network", signal_source::none, "none", "TCP_INFO needs /proc/self/fd and Linux 4.2 or later" + why,
          network_command(facts)};
}

source_status scheduler(const machine_facts& facts) {
  if (facts.scheduler_problem.empty())
    return {
        "system", signal_source::ebpf, "eBPF",
        "every thread's waits for a CPU, and where the training thread's time goes; CPU time, memory and page faults "
        "by procfs"};
  const auto why = "; not eBPF: " + facts.scheduler_problem;
  if (facts.procfs)
    return {"system", signal_source::unprivileged, "procfs", "CPU time, waits for a CPU, memory, page faults" + why,
            scheduler_command(facts)};
  return {"system", signal_source::none, "none",
          "procfs needs /proc/self/statm and /proc/self/task/*/schedstat (a kernel with CONFIG_SCHED_INFO)" + why,
          scheduler_command(facts)};
}

source_status pressure(const machine_facts& facts) {
  if (facts.pressure)
    return {"pressure", signal_source::unprivileged, "PSI", "the machine's waits for CPU, memory and I/O"};
  return {"pressure", signal_source::none, "none", "there is no /proc/pressure (a kernel with CONFIG_PSI)",
          pressure_command(facts)};
}

source_status gpu(const machine_facts& facts) {
  if (facts.gpu_problem.empty())
    return {"gpu", signal_source::unprivileged, "NVML", "utilisation, memory and throttling"};
  return {"gpu", signal_source::none, "none", facts.gpu_problem};
}

} // namespace

std::vector<source_status> advise(const machine_facts& facts) {
  return {network(facts), scheduler(facts), pressure(facts), gpu(facts)};
}

} // namespace dynamix::telemetry
