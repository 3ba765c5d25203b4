#pragma once

/// What all who load kernel programs need.

#include <spdlog/spdlog.h>

#include <algorithm>
#include <bpf/libbpf.h>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>

namespace dynamix::telemetry {

/// What libbpf says goes to the log, for those who look for it.
inline int log_libbpf(libbpf_print_level level, const char* format, va_list arguments) {
  if (level == LIBBPF_DEBUG)
    return 0;
  char line[512];
  std::vsnprintf(line, sizeof(line), format, arguments);
  spdlog::debug("libbpf text=\"{}\"", line);
  return 0;
}

/// "loading the network programs: Operation not permitted", by errno.
inline std::string libbpf_problem(const std::string& what) {
  return what + ": " + std::strerror(errno);
}

/// Those of a program's slots that a CPU of this machine may write to; reading the others would cost more than these.
template <class Slot, std::size_t Size>
std::span<const Slot> slots_in_use(const Slot (&slots)[Size]) {
  const int cpus = libbpf_num_possible_cpus();
  return {slots, cpus > 0 ? std::min(static_cast<std::size_t>(cpus), Size) : Size};
}

} // namespace dynamix::telemetry
