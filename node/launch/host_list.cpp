#include "node/launch/host_list.hpp"

#include "messages/types.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <optional>
#include <unordered_set>

namespace dynamix::node {
namespace {

constexpr std::string_view blanks = " \t\r";

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(blanks);
  return first == std::string_view::npos ? "" : text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

/// Cuts off what stands before the next separator outside of brackets.
std::string_view take_item(std::string_view& text, char separator) {
  std::size_t end = 0;
  for (int depth = 0; end < text.size() && (depth > 0 || text[end] != separator); ++end)
    depth += text[end] == '[' ? 1 : text[end] == ']' ? -1 : 0;
  const auto item = text.substr(0, end);
  text.remove_prefix(std::min(text.size(), end + 1));
  return item;
}

std::optional<unsigned> number(std::string_view digits) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return error == std::errc{} && end == digits.data() + digits.size() ? std::optional{value} : std::nullopt;
}

/// "fd00::7" of "[fd00::7]:4"; empty where the brackets hold no address of IPv6.
std::string_view bracketed_address(std::string_view text) {
  const auto close = text.find(']');
  if (!text.starts_with('[') || close == std::string_view::npos)
    return "";
  const auto inside = text.substr(1, close - 1);
  return inside.find(':') == std::string_view::npos ? "" : inside;
}

/// As a cluster file may hold it: "ip-fd00--7".
std::string name_of(std::string_view address) {
  auto name = "ip-" + std::string(address.substr(0, address.find('%')));
  std::ranges::replace(name, ':', '-');
  return name;
}

class collector {
public:
  /// False once there is a problem.
  bool add(std::string_view name, std::string_view address) {
    if (name.empty())
      return fail("there is a host without a name");
    if (!seen_.insert(std::string(name)).second)
      return true;
    if (list_.hosts.size() == messages::max_workers)
      return fail(fmt::format("there are more than {} hosts", messages::max_workers));
    list_.hosts.push_back({std::string(name), std::string(address.empty() ? name : address)});
    return true;
  }
  /// Each name that one with brackets stands for; only the first pair of them is a range.
  bool expand(std::string_view name) {
    const auto open = name.find('[');
    if (open == std::string_view::npos)
      return name.find(']') == std::string_view::npos ? add(name, "") : fail(fmt::format("\"{}\" has no [", name));
    const auto close = name.find(']', open);
    if (close == std::string_view::npos)
      return fail(fmt::format("\"{}\" has no ]", name));
    const auto head = name.substr(0, open);
    const auto tail = name.substr(close + 1);
    if (tail.find_first_of("[]") != std::string_view::npos)
      return fail(fmt::format("\"{}\" has more than one [...], which is not read", name));
    for (auto ranges = name.substr(open + 1, close - open - 1); !ranges.empty();)
      if (!expand(name, head, take_item(ranges, ','), tail))
        return false;
    return true;
  }
  bool fail(std::string problem) {
    list_.problem = std::move(problem);
    return false;
  }
  host_list take() {
    if (list_.problem.empty() && list_.hosts.empty())
      list_.problem = "there is no host in it";
    return std::move(list_);
  }

private:
  bool expand(std::string_view name, std::string_view head, std::string_view range, std::string_view tail) {
    const auto dash = range.find('-');
    const auto low = range.substr(0, dash);
    const auto first = number(low);
    const auto last = dash == std::string_view::npos ? first : number(range.substr(dash + 1));
    if (!first || !last || *last < *first || *last - *first >= messages::max_workers)
      return fail(fmt::format("\"{}\" of \"{}\" is no number or rising range of numbers", range, name));
    for (auto i = *first; i <= *last; ++i) // as wide as the lower end is written
      if (!add(fmt::format("{}{:0{}}{}", head, i, low.size(), tail), ""))
        return false;
    return true;
  }

  host_list list_;
  std::unordered_set<std::string> seen_;
};

} // namespace

host_list parse_host_list(std::string_view text) {
  collector hosts;
  while (!text.empty()) {
    const auto item = trimmed(take_item(text, ','));
    const auto equals = item.find('=');
    if (item.empty())
      continue;
    if (equals == std::string_view::npos ? !hosts.expand(item)
                                         : !hosts.add(item.substr(0, equals), item.substr(equals + 1)))
      break;
  }
  return hosts.take();
}

host_list parse_hostfile(std::string_view text) {
  collector hosts;
  if (text.starts_with("\xEF\xBB\xBF")) // which editors of Windows put before UTF-8
    text.remove_prefix(3);
  while (!text.empty()) {
    auto line = take_item(text, '\n');
    line = trimmed(line.substr(0, line.find('#')));
    line = line.substr(0, line.find_first_of(blanks));
    if (const auto address = bracketed_address(line); !address.empty()) {
      if (!hosts.add(name_of(address), address))
        break;
      continue;
    }
    if (const auto colon = line.find(':'); colon == line.rfind(':')) // "ada:4", and not an address of IPv6
      line = line.substr(0, colon);
    if (!line.empty() && !hosts.expand(line))
      break;
  }
  return hosts.take();
}

} // namespace dynamix::node
