#pragma once

/// What /proc tells of a process of ours.

#include <cstdint>
#include <optional>
#include <string>
#include <sys/types.h>

namespace dynamix::faults {

/// 'R', 'S', 'T' (stopped) ...; 0 where there is no such process.
char state_of(pid_t id);
/// Resident memory of its own, without pages of files; 0 where there is no such process.
double memory_mib_of(pid_t id);
/// Open descriptors; negative where they cannot be counted.
std::int64_t descriptors_of(pid_t id);
/// Write system calls so far (/proc/PID/io); 0 where they are not told.
std::uint64_t write_calls_of(pid_t id);
/// Bytes in the regular files below `directory` that the process holds open for writing.
std::uint64_t bytes_written_below(pid_t id, const std::string& directory);

} // namespace dynamix::faults
