#include "telemetry/log_format.hpp"

#include "telemetry/logging.hpp"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <chrono>
#include <ctime>

namespace dynamix::telemetry {
namespace {

std::atomic<std::uint64_t> generation = 0;

/// "2026-11-21T08:00:00.123Z"
std::string utc_text(spdlog::log_clock::time_point when) {
  const auto since = std::chrono::floor<std::chrono::milliseconds>(when.time_since_epoch()).count();
  const std::time_t seconds = since / 1000;
  std::tm time{};
  ::gmtime_r(&seconds, &time);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &time);
  return fmt::format("{}.{:03}Z", text, since % 1000);
}

std::string_view level_text(spdlog::level::level_enum level) {
  const auto name = spdlog::level::to_string_view(level);
  return level == spdlog::level::warn ? "warn" : std::string_view(name.data(), name.size());
}

/// On one line, whatever a peer has put into it.
std::string one_line(std::string_view text) {
  std::string clean(text);
  for (char& character : clean)
    if (static_cast<unsigned char>(character) < 0x20 || character == 0x7f)
      character = ' ';
  return clean;
}

/// As a JSON string, RFC 8259, section 7; bytes that are no UTF-8 are left to the reader.
std::string json_quoted(std::string_view text) {
  std::string safe = "\"";
  for (const char character : text) {
    if (character == '"' || character == '\\')
      safe += '\\';
    if (static_cast<unsigned char>(character) < 0x20)
      safe += fmt::format("\\u{:04x}", static_cast<unsigned>(character));
    else
      safe += character;
  }
  return safe + "\"";
}

/// Of a quote or a backslash in a quoted value; other backslashes stand for themselves.
bool is_escape(std::string_view text) {
  return text.starts_with("\\\"") || text.starts_with("\\\\");
}

bool is_key(std::string_view word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char character) {
    return std::isalnum(character) != 0 || character == '_';
  });
}

/// Where the next "key=" begins, from `from` on; npos if there is none.
std::size_t find_key(std::string_view message, std::size_t from) {
  for (auto begin = from; begin < message.size();) {
    const auto end = std::min(message.find(' ', begin), message.size());
    const auto equals = message.substr(begin, end - begin).find('=');
    if (equals != std::string_view::npos && is_key(message.substr(begin, equals)))
      return begin;
    begin = end + 1;
  }
  return std::string_view::npos;
}

/// That ends the text which begins at `begin`: not one that a backslash stands before.
std::size_t find_quote(std::string_view message, std::size_t begin) {
  for (; begin < message.size() && message[begin] != '"'; ++begin)
    if (message[begin] == '\\' && is_escape(message.substr(begin)))
      ++begin;
  return std::min(begin, message.size());
}

/// Quotes and backslashes as they were; other escapes stay, since the line holds no control characters.
std::string without_escapes(std::string_view text) {
  std::string plain;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (is_escape(text.substr(at)))
      ++at;
    plain += text[at];
  }
  return plain;
}

std::string trimmed(std::string_view text) {
  while (text.ends_with(' '))
    text.remove_suffix(1);
  return std::string(text);
}

class log_formatter final : public spdlog::formatter {
public:
  log_formatter(std::string host, bool json) : host_(std::move(host)), json_(json) {}

  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& into) override {
    const double now = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
    const auto text = one_line({message.payload.data(), message.payload.size()});
    const auto current = generation.load(std::memory_order_relaxed);
    const auto line = json_ ? json_line(message, now, current, text)
                            : fmt::format("{} mono={:.6f} {} host={} generation={} {}\n", utc_text(message.time), now,
                                          level_text(message.level), host_, current, text);
    into.append(line.data(), line.data() + line.size());
  }
  std::unique_ptr<spdlog::formatter> clone() const override { return std::make_unique<log_formatter>(host_, json_); }

private:
  std::string json_line(const spdlog::details::log_msg& message, double now, std::uint64_t current,
                        const std::string& text) const {
    const auto parts = take_apart(text);
    std::string fields;
    for (const auto& [key, value] : parts.fields)
      fields += (fields.empty() ? "" : ",") + json_quoted(key) + ":" + json_quoted(value);
    return fmt::format("{{\"time\":\"{}\",\"monotonic_seconds\":{:.6f},\"level\":\"{}\",\"host\":{},\"generation\":{},"
                       "\"event\":{},\"fields\":{{{}}},\"text\":{}}}\n",
                       utc_text(message.time), now, level_text(message.level), json_quoted(host_), current,
                       json_quoted(parts.event), fields, json_quoted(parts.text));
  }

  std::string host_;
  bool json_;
};

} // namespace

std::string event_of(std::string_view message) {
  return trimmed(message.substr(0, std::min(find_key(message, 0), message.size())));
}

log_message take_apart(std::string_view message) {
  log_message parts{.event = event_of(message), .fields = {}, .text = {}};
  for (auto at = find_key(message, 0); at != std::string_view::npos;) {
    const auto equals = message.find('=', at);
    const bool in_quotes = message.substr(equals + 1).starts_with('"');
    const auto begin = equals + (in_quotes ? 2 : 1);
    const auto end = in_quotes ? find_quote(message, begin) : std::min(message.find(' ', begin), message.size());
    const auto value = message.substr(begin, end - begin);
    parts.fields.emplace_back(message.substr(at, equals - at), in_quotes ? without_escapes(value) : std::string(value));
    const auto behind = std::min(end + (in_quotes ? 1 : 0), message.size());
    at = find_key(message, std::min(behind + 1, message.size()));
    const auto stop = std::min(at, message.size());
    const auto between = behind + 1 < stop ? trimmed(message.substr(behind + 1, stop - behind - 1)) : "";
    parts.text += (parts.text.empty() || between.empty() ? "" : " ") + between;
  }
  return parts;
}

std::unique_ptr<spdlog::formatter> make_log_formatter(std::string host, bool json) {
  return std::make_unique<log_formatter>(std::move(host), json);
}

void set_log_generation(std::uint64_t newest) {
  generation.store(newest, std::memory_order_relaxed);
}

} // namespace dynamix::telemetry
