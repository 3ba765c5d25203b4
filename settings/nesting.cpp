#include "settings/nesting.hpp"

#include <algorithm>

namespace dynamix::settings {
namespace {

/// The end of the string or comment that begins at `at`; `at` where there is none.
std::size_t skip_text(std::string_view text, std::size_t at) {
  if (text[at] == '#')
    return std::min(text.find('\n', at), text.size());
  const char quote = text[at];
  if (quote != '"' && quote != '\'')
    return at;
  const bool long_form = text.substr(at, 3) == std::string_view(quote == '"' ? "\"\"\"" : "'''");
  const std::size_t width = long_form ? 3 : 1;
  const auto closing = text.substr(at, width);
  for (at += width; at < text.size(); ++at) {
    if (quote == '"' && text[at] == '\\')
      ++at;
    else if (text.substr(at, width) == closing) {
      at += width;
      for (int more = 0; long_form && more < 2 && at < text.size() && text[at] == quote; ++more)
        ++at; // it ends with quotes of its own
      return at;
    } else if (!long_form && text[at] == '\n') // it is not closed
      return at;
  }
  return text.size();
}

} // namespace

std::optional<position> find_deep_nesting(std::string_view text) {
  std::size_t depth = 0; // of lists and tables
  std::size_t dots = 0;  // of one key, or one number
  position place{.line = 1, .column = 1};
  for (std::size_t at = 0; at < text.size();) {
    if (const auto end = skip_text(text, at); end > at) {
      for (; at < end; ++at)
        place = text[at] == '\n' ? position{place.line + 1, 1} : position{place.line, place.column + 1};
      continue;
    }
    const char each = text[at++];
    if (each == '.')
      ++dots;
    if (std::string_view("\n,=[]{}").find(each) != std::string_view::npos)
      dots = 0;
    if (each == '[' || each == '{')
      ++depth;
    else if ((each == ']' || each == '}') && depth > 0)
      --depth;
    if (depth > nesting_most || dots >= nesting_most)
      return place;
    place = each == '\n' ? position{place.line + 1, 1} : position{place.line, place.column + 1};
  }
  return std::nullopt;
}

} // namespace dynamix::settings
