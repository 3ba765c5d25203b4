#include "node/text.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <fmt/core.h>
#include <iomanip>
#include <sstream>
#include <string_view>

namespace dynamix::node {

std::string fixed(double value, int decimals) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(decimals) << value;
  return text.str();
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
  const auto two_digits = [](std::uint64_t number) {
    std::string text = std::to_string(number);
    return text.insert(0, 2 - text.size(), '0');
  };
  const auto minutes = whole / 60 % 60;
  const auto hours = whole / 3600;
  return (hours > 0 ? fmt::format("{}:{}", hours, two_digits(minutes)) : std::to_string(minutes)) + ":" +
         two_digits(whole % 60);
}

std::string grouped(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t place = text.size(); place > 3; place -= 3)
    text.insert(place - 3, 1, ',');
  return text;
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
  std::replace_if(
      clean.begin(), clean.end(), [](unsigned char c) { return c < 32 || c == 127; }, ' ');
  return clean;
}

std::string shell_quoted(const std::string& argument) {
  static constexpr std::string_view plain = "%+,-./:=@_";
  const auto is_plain = [](unsigned char c) {
    return c < 128 && (std::isalnum(c) != 0 || plain.find(static_cast<char>(c)) != std::string_view::npos);
  };
  if (!argument.empty() && std::ranges::all_of(argument, is_plain))
    return argument;
  std::ostringstream text;
  const bool ascii = std::ranges::all_of(argument, [](unsigned char c) { return c >= 32 && c < 127; });
  text << (ascii ? "'" : "$'");
  for (const unsigned char c : argument) {
    if (c < 32 || c > 126)
      text << "\\x" << std::hex << std::setw(2) << std::setfill('0') << static_cast<int>(c);
    else if (ascii)
      text << (c == '\'' ? "'\\''" : std::string(1, static_cast<char>(c)));
    else
      text << (c == '\'' || c == '\\' ? "\\" : "") << static_cast<char>(c);
  }
  text << "'";
  return text.str();
}

} // namespace dynamix::node
