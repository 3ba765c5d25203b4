#include "telemetry/kernel_session.hpp"

#include "telemetry/privileges.hpp"

#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

namespace dynamix::telemetry {
namespace {

/// "it takes CAP_BPF and CAP_NET_ADMIN, and has neither", or an empty string.
std::string lacking(bool bpf, bool other, const std::string& name) {
  if (bpf && other)
    return "";
  return "it takes CAP_BPF and " + name + ", and there is " +
         (bpf     ? "only CAP_BPF"
          : other ? "only " + name
                  : "neither");
}

constexpr auto not_the_first =
    "the process is in a user namespace (a rootless container), whose capabilities do not count";

/// Where the kernel describes its types, or why it does not.
std::string kernel_types_problem() {
  std::error_code ignored;
  if (std::filesystem::exists("/sys/kernel/btf/vmlinux", ignored))
    return "";
  if (!std::filesystem::exists("/sys/kernel", ignored))
    return "/sys is not mounted, where the kernel tells its types";
  return "there is no /sys/kernel/btf/vmlinux: a container hides it, or the kernel is built without "
         "CONFIG_DEBUG_INFO_BTF (Debian's has it since 11)";
}

std::string network_privileges_problem(const privileges& may) {
  return in_user_namespace() ? not_the_first : lacking(may.bpf, may.net_admin, "CAP_NET_ADMIN");
}

void load_network(kernel_session& session, const privileges& may, const std::vector<std::uint16_t>& control_ports) {
  session.network_problem = network_privileges_problem(may);
  if (session.network_problem.empty())
    session.group = enter_own_cgroup(session.network_problem);
  if (session.group)
    session.network = load_network_programs(session.group->descriptor(), control_ports, session.network_problem);
  if (session.network)
    session.network_problem.clear();
  else
    session.group.reset();
}

/// In all groups that are seen from here, since the process may be in any of them.
void load_network_of_another(kernel_session& session, const privileges& may) {
  session.network_problem = network_privileges_problem(may);
  if (!session.network_problem.empty())
    return;
  const auto root = find_own_cgroups().unified_mount;
  const int descriptor = root.empty() ? -1 : ::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) {
    session.network_problem = "cgroup version 2 is not mounted";
    return;
  }
  session.network = load_connection_programs(descriptor, session.network_problem);
  ::close(descriptor);
}

void load_scheduler(kernel_session& session, const privileges& may) {
  session.scheduler_problem = in_user_namespace() ? not_the_first : lacking(may.bpf, may.perfmon, "CAP_PERFMON");
  if (session.scheduler_problem.empty())
    session.scheduler_problem = kernel_types_problem();
  if (session.scheduler_problem.empty())
    session.scheduler = load_scheduler_programs(session.scheduler_problem);
}

bool is_missing(kernel_session& session) {
  const auto missing = missing_to_build();
  if (!missing.empty())
    session.network_problem = session.scheduler_problem = "this build is without eBPF (it would take " + missing + ")";
  return !missing.empty();
}

} // namespace

std::shared_ptr<kernel_session> open_kernel_session(const std::vector<std::uint16_t>& control_ports) {
  auto session = std::make_shared<kernel_session>();
  if (is_missing(*session))
    return session;
  const auto may = own_privileges();
  load_network(*session, may, control_ports);
  load_scheduler(*session, may);
  return session;
}

std::shared_ptr<kernel_session> open_kernel_session_of_another() {
  auto session = std::make_shared<kernel_session>();
  session->of_another = true;
  if (is_missing(*session))
    return session;
  const auto may = own_privileges();
  load_network_of_another(*session, may);
  load_scheduler(*session, may);
  return session;
}

} // namespace dynamix::telemetry
