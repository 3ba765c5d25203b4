#pragma once

/// The capabilities that measuring in the kernel takes (capabilities(7)).

#include <string>

namespace dynamix::telemetry {

struct privileges {
  bool bpf = false;
  bool perfmon = false;
  bool net_admin = false;
  friend bool operator==(const privileges&, const privileges&) = default;
};

/// What the calling thread may do. CAP_SYS_ADMIN stands for CAP_BPF and CAP_PERFMON, as in the kernel.
privileges own_privileges();

/// Has CAP_SYS_ADMIN: may mount.
bool may_administer();

/// The process is in another user namespace than the machine's first one (a rootless container). Capabilities hold in
/// it alone, and the kernel lets nobody load programs from there.
bool in_user_namespace();

/// Takes CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN and CAP_SYS_ADMIN from all threads of the process, for good. Returns an
/// empty string, or which threads kept them: one that blocks SIGRTMAX for a second.
std::string drop_privileges();

} // namespace dynamix::telemetry
