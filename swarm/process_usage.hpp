#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <sys/types.h>

namespace dynamix::swarm {

struct process_usage {
  double cpu_seconds = 0;         ///< of all its threads, user and system
  std::uint64_t memory_bytes = 0; ///< resident, without pages of files: program code, which processes share
};

/// From /proc/<id>: the threads' schedstat (nanoseconds), or where a kernel has none stat (clock ticks), and statm.
/// What threads used that have ended is left out. Nothing when the process has gone.
std::optional<process_usage> usage_of(pid_t id, const std::string& proc = "/proc");

/// Whether somebody listens on this TCP port, on whatever address; looks without a connection of its own.
bool is_listening(std::uint16_t port, const std::string& proc = "/proc");

} // namespace dynamix::swarm
