#pragma once

#include "telemetry/cgroup.hpp"

#include <cstdint>
#include <string>

namespace dynamix::telemetry {

/// What the control groups of a process leave to it; 0: no limit.
struct cgroup_limits {
  double cores = 0;
  std::uint64_t memory_bytes = 0;
  std::string cores_group; ///< whose limit `cores` is
};

/// The lowest of the groups and all above them, of either version.
cgroup_limits read_limits(const cgroup_places& places);

/// For how long a group has been stopped since it had used its part of the CPUs, by the text of its cpu.stat, of either
/// version; of all its CPUs. 0: it does not say.
double stopped_seconds(const char* cpu_stat);

} // namespace dynamix::telemetry
