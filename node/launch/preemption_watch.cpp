#include "node/launch/preemption_watch.hpp"

#include "node/launch/child_process.hpp"
#include "node/launch/sleep_for.hpp"
#include "storage/atomic_file.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <optional>
#include <sstream>
#include <stop_token>
#include <string_view>
#include <system_error>
#include <utility>

namespace dynamix::node {
namespace {

constexpr std::string_view command_mark = "command:";
constexpr std::chrono::seconds file_interval{1};
constexpr std::chrono::seconds command_interval{5};
constexpr std::chrono::seconds command_patience{5};
constexpr std::chrono::milliseconds poll_interval{50};
constexpr std::size_t notice_bytes_max = 4096;
constexpr double seconds_most = 86400;

std::string notice_in(const std::string& path) {
  std::string text;
  storage::read_file(path, notice_bytes_max, text);
  return text;
}

/// What it printed, where it ended with 0 in time.
std::optional<std::string> run_command(const std::stop_token& stop, const std::string& command,
                                       const std::string& scratch) {
  std::error_code ignored;
  std::filesystem::remove(scratch, ignored);
  child_process child;
  if (!child.start({.program = "/bin/sh", .arguments = {"-c", command}, .output = "/dev/null", .results = scratch})
           .empty())
    return std::nullopt;
  const auto deadline = std::chrono::steady_clock::now() + command_patience;
  while (child.running())
    if (std::chrono::steady_clock::now() > deadline || !sleep_for(stop, poll_interval)) {
      child.kill_group();
      std::filesystem::remove(scratch, ignored);
      return std::nullopt;
    }
  const auto said = notice_in(scratch);
  std::filesystem::remove(scratch, ignored);
  return child.poll()->well() ? std::optional(said) : std::nullopt;
}

} // namespace

double seconds_of_notice(const std::string& text) {
  std::istringstream lines(text);
  bool first = true;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string number;
    std::string more;
    if (!(words >> number))
      continue;
    words >> more;
    double seconds = 0;
    const auto* end = number.data() + number.size();
    if (const auto read = std::from_chars(number.data(), end, seconds, std::chars_format::fixed);
        read.ec == std::errc() && (read.ptr == end || std::string_view(read.ptr, end) == "s") &&
        (first || more.empty()) && std::isfinite(seconds))
      return std::clamp(seconds, 0.0, seconds_most);
    first = false;
  }
  return 0;
}

preemption_watch::preemption_watch(std::string source, std::string scratch,
                                   std::function<void(const preemption_notice&)> told)
    : thread_([source = std::move(source), scratch = std::move(scratch),
               told = std::move(told)](const std::stop_token& stop) {
        const bool runs = source.starts_with(command_mark);
        const auto look = [&]() -> std::optional<std::string> {
          if (runs)
            return run_command(stop, source.substr(command_mark.size()), scratch);
          std::error_code ignored;
          return std::filesystem::exists(source, ignored) ? std::optional(notice_in(source)) : std::nullopt;
        };
        do {
          if (const auto text = look())
            return told({.seconds = seconds_of_notice(*text), .source = source});
        } while (sleep_for(stop, runs ? command_interval : file_interval));
      }) {}

} // namespace dynamix::node
