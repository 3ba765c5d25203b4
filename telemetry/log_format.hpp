#pragma once

/// How a line of the log looks. Internal to logging.cpp.

#include <spdlog/formatter.h>

#include <memory>
#include <string>
#include <string_view>

namespace dynamix::telemetry {

std::unique_ptr<spdlog::formatter> make_log_formatter(std::string host, bool json);

/// What a message tells of: the words before its first key.
std::string event_of(std::string_view message);

} // namespace dynamix::telemetry
