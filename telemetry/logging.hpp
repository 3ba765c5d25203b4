#pragma once

/// One logger a process: one line an event, key=value, UTC time; to a file, and from `warn` up to standard error:
///
///     2026-11-21T08:00:00.123Z info host=ada window closed window=12 batch=164

#include <spdlog/spdlog.h>

#include <string>

namespace dynamix::telemetry {

struct logging_options {
  std::string host;           ///< stamped on every line
  std::string file;           ///< appended to; its directories are made; empty: standard error only
  bool console = false;       ///< every line also to standard error, not only warnings
  std::string level = "info"; ///< trace | debug | info | warn | error
};

/// Sets spdlog's default logger. Lines reach the file within a second, warnings and errors at once; control characters
/// in a message become spaces, so that an event stays one line. Returns an empty string, or what is wrong: the file
/// cannot be written, or the level is unknown; the default logger is then as before.
std::string start_logging(const logging_options& options);

} // namespace dynamix::telemetry
