#pragma once

/// One logger a process: one line an event, key=value, UTC time; to a file, and from `warn` up to standard error.

#include <spdlog/spdlog.h>

#include <string>

namespace dynamix::telemetry {

struct logging_options {
  std::string host;            ///< stamped on every line
  std::string file;            ///< empty: standard error only
  bool console = false;        ///< every line also to standard error, not only warnings
  std::string level = "info";  ///< trace | debug | info | warn | error
};

/// Sets spdlog's default logger. Returns an empty string, or why the file cannot be written.
std::string start_logging(const logging_options& options);

} // namespace dynamix::telemetry
