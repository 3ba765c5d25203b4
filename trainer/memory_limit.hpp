#pragma once

/// Memory that ends as an exception in training, which then computes in smaller parts, rather than with the process.

#include <cstdint>
#include <string>

namespace dynamix::trainer {

/// What the control group of a process, or one above it, allows it in bytes; 0: nothing is limited, or it cannot be
/// read. `groups` is its /proc/PID/cgroup, `mount` where version 2 (memory.max) or version 1 (memory.limit_in_bytes) is
/// mounted; as in a container, the process's own group may be all that is seen.
std::uint64_t control_group_limit(const std::string& groups = "/proc/self/cgroup",
                                  const std::string& mount = "/sys/fs/cgroup");

/// Of this process in memory, but for what a file backs; 0 if it cannot be read.
std::uint64_t own_resident_bytes();

/// From now on the allocation of a tensor on the CPU fails where it would take `own_resident_bytes` beyond `bytes`, as
/// it does where the machine's memory ends; 0: no more. Small ones do not: so leave a few MB.
void limit_tensor_memory(std::uint64_t bytes);

} // namespace dynamix::trainer
