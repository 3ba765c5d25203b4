#include "node/reports/text.hpp"

#include <algorithm>
#include <cctype>
#include <iomanip>
#include <sstream>
#include <string_view>

namespace dynamix::node {

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
