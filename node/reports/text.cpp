#include "node/reports/text.hpp"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <string_view>

namespace dynamix::node {

std::string shell_quoted(const std::string& argument) {
  static constexpr std::string_view plain = "%+,-./:=@_";
  const auto is_plain = [](unsigned char c) {
    return c < 128 && (std::isalnum(c) != 0 || plain.find(static_cast<char>(c)) != std::string_view::npos);
  };
  if (!argument.empty() && std::ranges::all_of(argument, is_plain))
    return argument;
  std::string text = "'";
  for (const unsigned char c : argument) {
    if (c == '\'' || c == '\\' || c == '!') // fish knows the second between single quotes, tcsh the third
      text += {'\'', '\\', static_cast<char>(c), '\''};
    else if ((c < 32 && c != '\n') || c == 127) // no terminal is to obey it; $(...) would lose a line's end
      text += fmt::format("'\"$(printf '\\{:03o}')\"'", c);
    else
      text += static_cast<char>(c);
  }
  return text + "'";
}

} // namespace dynamix::node
