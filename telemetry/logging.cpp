#include "telemetry/logging.hpp"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace dynamix::telemetry {

namespace {

/// The message itself, on one line whatever a peer has put into it.
class one_line_message final : public spdlog::custom_flag_formatter {
public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& into) override {
    for (const char character : message.payload) {
      const bool control = static_cast<unsigned char>(character) < 0x20 || character == 0x7f;
      into.push_back(control ? ' ' : character);
    }
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<one_line_message>(); }
};

class plain_level final : public spdlog::custom_flag_formatter {
public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& into) override {
    const auto name = spdlog::level::to_string_view(message.level);
    const std::string_view shown =
        message.level == spdlog::level::warn ? "warn" : std::string_view(name.data(), name.size());
    into.append(shown.data(), shown.data() + shown.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<plain_level>(); }
};

std::unique_ptr<spdlog::formatter> make_formatter(const std::string& host) {
  std::string escaped;
  for (const char character : host)
    escaped += character == '%' ? "%%" : std::string(1, character);
  auto formatter = std::make_unique<spdlog::pattern_formatter>(spdlog::pattern_time_type::utc);
  formatter->add_flag<one_line_message>('*');
  formatter->add_flag<plain_level>('N');
  formatter->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %N host=" + escaped + " %*");
  return formatter;
}

constexpr std::array<std::pair<std::string_view, spdlog::level::level_enum>, 5> levels = {
    {{"trace", spdlog::level::trace},
     {"debug", spdlog::level::debug},
     {"info", spdlog::level::info},
     {"warn", spdlog::level::warn},
     {"error", spdlog::level::err}}};

} // namespace

std::string start_logging(const logging_options& options) {
  const auto level =
      std::find_if(levels.begin(), levels.end(), [&](const auto& each) { return each.first == options.level; });
  if (level == levels.end())
    return "unknown log level \"" + options.level + "\"; allowed: trace, debug, info, warn, error";
  try {
    std::vector<spdlog::sink_ptr> sinks;
    auto console = std::make_shared<spdlog::sinks::stderr_sink_mt>();
    console->set_level(options.console ? spdlog::level::trace : spdlog::level::warn);
    sinks.push_back(std::move(console));
    if (!options.file.empty())
      sinks.push_back(std::make_shared<spdlog::sinks::basic_file_sink_mt>(options.file));
    auto logger = std::make_shared<spdlog::logger>(options.host, sinks.begin(), sinks.end());
    logger->set_formatter(make_formatter(options.host));
    logger->set_level(level->second);
    logger->flush_on(spdlog::level::warn);
    spdlog::set_default_logger(std::move(logger));
    spdlog::flush_every(std::chrono::seconds(1));
  } catch (const spdlog::spdlog_ex& error) {
    return "cannot write the log file " + options.file + ": " + error.what();
  }
  return {};
}

} // namespace dynamix::telemetry
