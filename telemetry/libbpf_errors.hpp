#pragma once

#include <spdlog/spdlog.h>

#include <bpf/libbpf.h>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
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

} // namespace dynamix::telemetry
