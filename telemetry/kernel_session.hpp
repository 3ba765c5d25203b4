#pragma once

/// One process's programs in the kernel, from before its first socket until its end, or those with which it measures
/// another one.

#include "telemetry/cgroup.hpp"
#include "telemetry/kernel_programs.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace dynamix::telemetry {

struct kernel_session {
  std::unique_ptr<own_cgroup> group; ///< first, so that it goes last
  std::shared_ptr<network_programs> network;
  std::shared_ptr<scheduler_programs> scheduler;
  std::string network_problem; ///< why there are no such programs; empty where there are
  std::string scheduler_problem;
  bool of_another = false; ///< of whichever process is followed, and not of this one
};

/// Loads what the process may load. Call before the first socket is made. Connections with one of `control_ports` at
/// either end carry no gradients, unless their priority says so (bpf/network.h). Never throws; what fails is told in
/// the session.
std::shared_ptr<kernel_session> open_kernel_session(const std::vector<std::uint16_t>& control_ports);

/// The same for another process, which may come later and need not be in a certain cgroup. Of its connections only
/// those are measured that it makes from now on.
std::shared_ptr<kernel_session> open_kernel_session_of_another();

} // namespace dynamix::telemetry
