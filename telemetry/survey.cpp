#include "telemetry/survey.hpp"

#include "telemetry/ebpf_probes.hpp"

#include <filesystem>
#include <functional>
#include <linux/magic.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace dynamix::telemetry {
namespace {

constexpr auto left_out = "[telemetry] sources leaves it out";

std::string why_not_ebpf(const wanted_sources& wanted, const kernel_session* session,
                         const std::string kernel_session::*problem) {
  return std::string("not eBPF: ") + (wanted.ebpf && session != nullptr ? session->*problem : left_out);
}

signal_chain network_chain(const wanted_sources& wanted, const kernel_session* session,
                           const std::vector<std::uint16_t>& control_ports) {
  signal_chain chain{.of = signal::network};
  if (wanted.ebpf && session != nullptr && session->network)
    chain.best_first.push_back(make_ebpf_network_probe(session->network, make_gradient_tcp_info_probe(control_ports)));
  else
    chain.reason = why_not_ebpf(wanted, session, &kernel_session::network_problem);
  if (wanted.tcp_info)
    chain.best_first.push_back(make_tcp_info_probe(control_ports));
  return chain;
}

signal_chain network_chain_of(int process, const wanted_sources& wanted, const kernel_session* session) {
  signal_chain chain{.of = signal::network};
  if (wanted.ebpf && session != nullptr && session->network)
    chain.best_first.push_back(make_ebpf_connection_probe(session->network, process));
  else
    chain.reason = why_not_ebpf(wanted, session, &kernel_session::network_problem);
  if (wanted.tcp_info)
    chain.best_first.push_back(make_process_tcp_info_probe(process));
  return chain;
}

/// `process`: another one; 0: this.
signal_chain system_chain(int process, const wanted_sources& wanted, const kernel_session* session) {
  signal_chain chain{.of = signal::system};
  if (wanted.ebpf && session != nullptr && session->scheduler)
    chain.best_first.push_back(make_ebpf_scheduler_probe(session->scheduler, make_usage_probe(process), process));
  else
    chain.reason = why_not_ebpf(wanted, session, &kernel_session::scheduler_problem);
  if (wanted.procfs)
    chain.best_first.push_back(make_procfs_probe(process));
  return chain;
}

signal_chain simple_chain(signal of, bool wanted, const std::function<std::unique_ptr<probe>()>& make) {
  signal_chain chain{.of = of};
  if (wanted)
    chain.best_first.push_back(make());
  else
    chain.reason = left_out;
  return chain;
}

bool works(signal of, std::unique_ptr<probe> probe) {
  counters sampled;
  probe->sample(sampled);
  return is_valid(sampled, of);
}

bool setcap_counts() {
  struct statvfs about {};
  return ::statvfs("/proc/self/exe", &about) != 0 ||
         ((about.f_flag & ST_NOSUID) == 0 && ::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1);
}

/// sysfs has an empty directory for it, in which none can be made; beside version 1 it is a directory among others.
std::string free_mount_point() {
  struct statfs about {};
  const bool free = ::statfs("/sys/fs/cgroup", &about) == 0 && about.f_type == SYSFS_MAGIC;
  return free ? "/sys/fs/cgroup" : "/sys/fs/cgroup/unified";
}

} // namespace

std::vector<signal_chain> choose_sources(const wanted_sources& wanted, const kernel_session* session,
                                         const std::vector<std::uint16_t>& control_ports) {
  std::vector<signal_chain> chains;
  chains.push_back(network_chain(wanted, session, control_ports));
  chains.push_back(system_chain(0, wanted, session));
  chains.push_back(simple_chain(signal::pressure, wanted.procfs, [] { return make_pressure_probe(); }));
  chains.push_back(simple_chain(signal::gpu, wanted.nvml, [] { return make_nvml_probe(); }));
  return chains;
}

std::vector<signal_chain> choose_sources_of(int process, const wanted_sources& wanted, const kernel_session* session) {
  std::vector<signal_chain> chains;
  chains.push_back(network_chain_of(process, wanted, session));
  chains.push_back(system_chain(process, wanted, session));
  chains.push_back(simple_chain(signal::pressure, wanted.procfs, [&] { return make_pressure_probe(process); }));
  chains.push_back(simple_chain(signal::gpu, wanted.nvml, [&] { return make_nvml_probe(process); }));
  return chains;
}

machine_facts survey_machine() {
  std::error_code ignored;
  const auto groups = find_own_cgroups();
  machine_facts facts{.missing_to_build = missing_to_build(),
                      .may = own_privileges(),
                      .may_mount = may_administer(),
                      .in_user_namespace = in_user_namespace(),
                      .has_proc = std::filesystem::exists("/proc/self", ignored),
                      .has_sys = std::filesystem::exists("/sys/kernel", ignored),
                      .unified_cgroup = groups.unified,
                      .unified_mount = groups.unified.empty() ? free_mount_point() : groups.unified_mount,
                      .has_grub = std::filesystem::exists("/usr/sbin/update-grub", ignored),
                      .program = std::filesystem::read_symlink("/proc/self/exe", ignored),
                      .setcap_counts = setcap_counts(),
                      .user = ::geteuid(),
                      .shell = ::getppid()};
  const auto session = open_kernel_session({});
  facts.network_problem = session->network_problem;
  facts.scheduler_problem = session->scheduler_problem;
  // An unconnected socket is enough to see whether the kernel's tcp_info has byte counts.
  const int socket_of_own = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  facts.tcp_info = socket_of_own >= 0 && works(signal::network, make_tcp_info_probe());
  if (socket_of_own >= 0)
    ::close(socket_of_own);
  facts.procfs = works(signal::system, make_procfs_probe());
  facts.pressure = works(signal::pressure, make_pressure_probe());
  counters sampled;
  const auto gpu = make_nvml_probe();
  gpu->sample(sampled);
  facts.gpu_problem = sampled.gpu.valid ? "" : gpu->problem();
  return facts;
}

} // namespace dynamix::telemetry
