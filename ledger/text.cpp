#include "ledger/text.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace dynamix::ledger {

std::string fixed(double value, int decimals) {
  return fmt::format("{:.{}f}", value, decimals);
}

std::string percent(double share, int decimals) {
  return fixed(100 * share, decimals) + " %";
}

std::string duration(double seconds) {
  if (!(seconds >= 0) || seconds > 1e9)
    return "-";
  const auto whole = static_cast<std::uint64_t>(std::llround(seconds));
  if (whole < 60)
    return fmt::format("{} s", whole);
  const auto minutes = whole / 60 % 60;
  const auto hours = whole / 3600;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60)
                   : fmt::format("{}:{:02}", minutes, whole % 60);
}

std::string grouped(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t place = text.size(); place > 3; place -= 3)
    text.insert(place - 3, 1, ',');
  return text;
}

std::string decisions_made_text(std::uint64_t made, std::uint64_t applied) {
  return grouped(made) + " made" +
         (applied > made ? " by the ledger, which lacks " + grouped(applied - made) + " or more" : "");
}

std::string sparkline(const std::vector<double>& values, double low, double high, std::size_t width) {
  static constexpr std::array<const char*, 8> blocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const double span = std::log2(std::max(high, 1.0)) - std::log2(std::max(low, 1.0));
  const std::size_t shown = std::min(width, values.size());
  std::string text;
  for (std::size_t i = 0; i < shown; ++i) {
    const double value = values[shown == 1 ? 0 : i * (values.size() - 1) / (shown - 1)];
    const double height = span > 0 ? (std::log2(std::max(value, 1.0)) - std::log2(std::max(low, 1.0))) / span : 0;
    text += blocks[static_cast<std::size_t>(std::lround(std::clamp(height, 0.0, 1.0) * (blocks.size() - 1)))];
  }
  return text;
}

std::string printable(const std::string& text, std::size_t limit) {
  std::string clean = text.substr(0, limit);
  if (clean.size() < text.size()) // no part of a character
    while (!clean.empty() && (static_cast<unsigned char>(text[clean.size()]) & 0xc0U) == 0x80)
      clean.pop_back();
  for (std::size_t at = 0; at < clean.size(); ++at) {
    const auto byte = static_cast<unsigned char>(clean[at]);
    const bool c1 = byte == 0xc2 && at + 1 < clean.size() && static_cast<unsigned char>(clean[at + 1]) < 0xa0;
    if (c1)
      clean[at + 1] = ' ';
    if (c1 || byte < 32 || byte == 127)
      clean[at] = ' ';
  }
  return clean;
}

} // namespace dynamix::ledger
