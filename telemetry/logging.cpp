#include "telemetry/logging.hpp"

#include "telemetry/log_format.hpp"

#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <mutex>

namespace dynamix::telemetry {

namespace {

double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Hands on to its sinks what the limit lets through, and tells what it did not.
class limited_sink final : public spdlog::sinks::base_sink<std::mutex> {
public:
  explicit limited_sink(std::vector<spdlog::sink_ptr> sinks) : sinks_(std::move(sinks)) {}
  ~limited_sink() override { tell(true); }

protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    tell(false);
    const std::string_view text(message.payload.data(), message.payload.size());
    if (limit_.allow(event_of(text), monotonic_seconds()))
      pass(message);
  }
  void flush_() override {
    tell(false);
    for (const auto& sink : sinks_)
      sink->flush();
  }
  void set_pattern_(const std::string&) override {}
  void set_formatter_(std::unique_ptr<spdlog::formatter> formatter) override {
    for (const auto& sink : sinks_)
      sink->set_formatter(formatter->clone());
  }

private:
  void pass(const spdlog::details::log_msg& message) {
    for (const auto& sink : sinks_)
      if (sink->should_log(message.level))
        sink->log(message);
  }
  void tell(bool all) {
    for (const auto& each : limit_.take_left_out(monotonic_seconds(), all)) {
      const auto text = fmt::format("repeats_left_out event={} count={} seconds={:.0f}", each.event, each.count,
                                    repeat_limit::period_seconds);
      pass(spdlog::details::log_msg("", spdlog::level::info, text));
    }
  }

  std::vector<spdlog::sink_ptr> sinks_;
  repeat_limit limit_;
};

constexpr std::array<std::pair<std::string_view, spdlog::level::level_enum>, 5> levels = {
    {{"trace", spdlog::level::trace},
     {"debug", spdlog::level::debug},
     {"info", spdlog::level::info},
     {"warn", spdlog::level::warn},
     {"error", spdlog::level::err}}};

} // namespace

bool repeat_limit::allow(const std::string& event, double now_seconds) {
  constexpr std::size_t events_max = 256;
  const auto found = periods_.find(event);
  if (found == periods_.end() || now_seconds - found->second.began_seconds >= period_seconds) {
    if (found == periods_.end() && periods_.size() >= events_max)
      return true; // nobody has that many kinds of events, so they are not repeats
    periods_[event] = {now_seconds, 1};
    return true;
  }
  return ++found->second.count <= times_max;
}

std::vector<repeat_limit::left_out> repeat_limit::take_left_out(double now_seconds, bool all) {
  std::vector<left_out> told;
  for (auto each = periods_.begin(); each != periods_.end();) {
    const auto& [event, period] = *each;
    if (!all && now_seconds - period.began_seconds < period_seconds) {
      ++each;
      continue;
    }
    if (period.count > times_max)
      told.push_back({event, period.count - times_max});
    each = periods_.erase(each);
  }
  return told;
}

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
    auto logger = std::make_shared<spdlog::logger>(options.host, std::make_shared<limited_sink>(std::move(sinks)));
    logger->set_formatter(make_log_formatter(options.host, options.json));
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
