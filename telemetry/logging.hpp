#pragma once

/// One logger a process: one line an event, key=value; to a file, and from `warn` up to standard error. Time is UTC
/// and, as `mono`, the machine's monotonic seconds; the generation is the newest that this host is in, 0 before the
/// first:
///
///     2026-11-21T08:00:00.123Z mono=5025.104377 info host=ada generation=3 policy_updated version=12 entropy=0.41
///
/// or, as JSON, with the message taken apart where it has keys:
///
///     {"time":"2026-11-21T08:00:00.123Z","monotonic_seconds":5025.104377,"level":"info","host":"ada","generation":3,
///      "event":"policy_updated","fields":{"version":"12","entropy":"0.41"},"text":""}
///
/// An event that repeats is logged 50 times in 10 s; what comes beyond is counted, and the count is logged when the
/// time is over: `repeats_left_out event=policy_updated count=37 seconds=10`.

#include <spdlog/spdlog.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dynamix::telemetry {

struct logging_options {
  std::string host;           ///< stamped on every line
  std::string file;           ///< appended to; its directories are made; empty: standard error only
  bool console = false;       ///< every line also to standard error, not only warnings
  bool json = false;          ///< an object per line
  std::string level = "info"; ///< trace | debug | info | warn | error
};

/// Sets spdlog's default logger. Lines reach the file within a second, warnings and errors at once; control characters
/// in a message become spaces, so that an event stays one line. Returns an empty string, or what is wrong: the file
/// cannot be written, or the level is unknown; the default logger is then as before.
std::string start_logging(const logging_options& options);

/// What every line from now on is stamped with. Thread-safe.
void set_log_generation(std::uint64_t generation);

/// "event key=value key2=\"two words\" the rest" taken apart. A message without keys is all `event`.
struct log_message {
  std::string event;
  std::vector<std::pair<std::string, std::string>> fields;
  std::string text;
};
log_message take_apart(std::string_view message);

/// Decides which repeats of an event are written. Pure but for what it remembers; holds at most 256 events.
class repeat_limit {
public:
  static constexpr std::uint32_t times_max = 50;
  static constexpr double period_seconds = 10;

  struct left_out {
    std::string event;
    std::uint32_t count;
  };
  bool allow(const std::string& event, double now_seconds);
  /// Whose period is over and had more than was written; each once. `all`: also those whose is not.
  std::vector<left_out> take_left_out(double now_seconds, bool all = false);

private:
  struct period {
    double began_seconds;
    std::uint32_t count;
  };
  std::map<std::string, period> periods_;
};

} // namespace dynamix::telemetry
