#pragma once

#include "telemetry/privileges.hpp"

#include <cerrno>
#include <cstring>
#include <grp.h>
#include <linux/capability.h>
#include <string>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace dynamix::telemetry {

/// Makes the calling process an ordinary user's, with these capabilities and no others, as `setpriv` would.
inline std::string become_user(unsigned user, privileges may) {
  if (::prctl(PR_SET_KEEPCAPS, 1) != 0 || ::setgroups(0, nullptr) != 0 || ::setgid(user) != 0 || ::setuid(user) != 0)
    return std::string("changing the user: ") + std::strerror(errno);
  __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct halves[2] = {};
  const std::pair<unsigned, bool> wanted[] = {{39, may.bpf}, {38, may.perfmon}, {12, may.net_admin}};
  for (const auto& [capability, granted] : wanted)
    if (granted)
      halves[capability / 32].permitted |= 1U << capability % 32;
  for (auto& half : halves)
    half.effective = half.permitted;
  return ::syscall(SYS_capset, &header, halves) == 0 ? "" : std::string("capset: ") + std::strerror(errno);
}

} // namespace dynamix::telemetry
