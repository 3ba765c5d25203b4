#include "node/launch/host_list.hpp"

#include "cluster/listen_address.hpp"
#include "cluster/places.hpp"
#include "messages/types.hpp"
#include "storage/text_encoding.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cctype>
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

bool is_ipv6(std::string_view text) {
  in6_addr ignored{};
  return ::inet_pton(AF_INET6, std::string(text).c_str(), &ignored) == 1;
}

/// An address of IPv6 has no name, and a name no colon.
std::string named_after(std::string_view address) {
  std::string name(address);
  std::ranges::replace(name, ':', '-');
  return std::isalnum(static_cast<unsigned char>(name.front())) != 0 ? name : "host" + name;
}

/// Without what MPI's programs write behind a host: ":4", ":4:mlx5_0". Brackets hold an address of IPv6.
std::string_view without_slots(std::string_view text) {
  if (text.starts_with('['))
    if (const auto close = text.find(']'); close != std::string_view::npos && is_ipv6(text.substr(1, close - 1)))
      return text.substr(1, close - 1);
  return is_ipv6(text) ? text : text.substr(0, text.find(':'));
}

/// ":4", ":4:mlx5_0", or nothing.
bool are_slots(std::string_view text) {
  if (text.empty())
    return true;
  const auto digits = text.substr(1, text.find(':', 1) - 1);
  const auto port = text.substr(1 + digits.size());
  return text.front() == ':' && number(digits) && std::ranges::all_of(port, [](unsigned char c) {
           return std::isalnum(c) != 0 || c == ':' || c == '_' || c == '-';
         });
}

/// Of what stands behind a host in a file: slots, whose number means nothing here, and Grid Engine's columns (of a
/// number, the host's queue, and processors) pass; a misspelt word, another host, or one that means something, does
/// not.
bool is_left_aside_silently(std::string_view word, std::string_view host) {
  const auto equals = word.find('=');
  if (equals == std::string_view::npos)
    return number(word) || word.ends_with(fmt::format("@{}", host)) || word == "<NULL>" || word == "UNDEFINED";
  const auto key = word.substr(0, equals);
  return (key == "slots" || key == "max_slots" || key == "max-slots" || key == "cpu" || key == "ppn") &&
         number(word.substr(equals + 1));
}

class collector {
public:
  /// False once there is a problem.
  bool add(std::string_view name, std::string_view address) {
    if (name.empty())
      return fail("there is a host without a name");
    const auto own = is_ipv6(name) ? named_after(name) : std::string(name);
    const auto reached = std::string(address.empty() ? name : address);
    if (!cluster::is_host_name(own))
      return fail(fmt::format("\"{}\" is not a name of a host: 1 to 64 letters, digits, '.', '_' and '-'", own));
    if (!cluster::is_address(reached))
      return fail(fmt::format("\"{}\" is not an address of a host", reached));
    auto folded = own; // names mean the same in capitals
    std::ranges::transform(folded, folded.begin(), [](unsigned char c) { return std::tolower(c); });
    if (!seen_.insert(folded).second) {
      if (std::ranges::find(list_.again, own) == list_.again.end() && list_.again.size() < messages::max_workers)
        list_.again.push_back(own);
      return true;
    }
    if (list_.hosts.size() == messages::max_workers)
      return fail(fmt::format("there are more than {} hosts", messages::max_workers));
    list_.hosts.push_back({own, reached});
    return true;
  }
  /// A host as MPI's programs and schedulers write it.
  bool add_written(std::string_view text) {
    if (const auto at = text.find('@'); at != std::string_view::npos)
      return fail(
          fmt::format("\"{}\" names a user, which a cluster file does not: write \"{}\", and give the user to ssh, "
                      "by --ssh \"ssh -l {}\" or in ~/.ssh/config",
                      text, text.substr(at + 1), text.substr(0, at)));
    if (text.find('%') != std::string_view::npos)
      return fail(
          fmt::format("\"{}\" has a zone, which is another one on every host: give an address that all reach", text));
    const auto host = without_slots(text);
    const auto behind = text.substr(
        std::min(text.size(), text.find(host) + host.size() + (text.starts_with('[') && is_ipv6(host) ? 1 : 0)));
    if (!are_slots(behind))
      return fail(fmt::format("\"{}\" is no host: after a name come at most slots, as in \"{}:4\"", text, host));
    return expand(host);
  }
  void leave_aside(std::string_view word, std::size_t line) {
    if (list_.left_aside.size() < messages::max_workers)
      list_.left_aside.push_back(fmt::format("line {}: \"{}\"", line, word));
  }
  bool fail(std::string problem) {
    list_.problem = std::move(problem);
    return false;
  }
  /// For the line that was just read.
  void place_problem(std::size_t line) { list_.problem = fmt::format("line {}: {}", line, list_.problem); }
  host_list take() {
    if (list_.problem.empty() && list_.hosts.empty())
      list_.problem = "there is no host in it";
    return std::move(list_);
  }

private:
  /// Each name that one with brackets stands for, the last of them changing first.
  bool expand(std::string_view name, const std::string& head = "") {
    const auto open = name.find('[');
    const auto close = name.find(']');
    if (open == std::string_view::npos)
      return close == std::string_view::npos ? add(head + std::string(name), "")
                                             : fail(fmt::format("\"{}{}\" has no [", head, name));
    if (close == std::string_view::npos || close < open)
      return fail(fmt::format("\"{}{}\" has no {}", head, name, close == std::string_view::npos ? ']' : '['));
    for (auto ranges = name.substr(open + 1, close - open - 1); !ranges.empty();)
      if (!expand_range(head + std::string(name.substr(0, open)), take_item(ranges, ','), name.substr(close + 1)))
        return false;
    return true;
  }
  bool expand_range(const std::string& head, std::string_view range, std::string_view tail) {
    const auto dash = range.find('-');
    const auto low = range.substr(0, dash);
    const auto first = number(low);
    const auto last = dash == std::string_view::npos ? first : number(range.substr(dash + 1));
    if (!first || !last || *last < *first)
      return fail(fmt::format("\"{}\" of \"{}[{}]{}\" is neither a number nor a rising range of numbers", range, head,
                              range, tail));
    if (*last - *first >= messages::max_workers)
      return fail(fmt::format("\"{}[{}]{}\" stands for {} hosts; there may be at most {}", head, range, tail,
                              std::uint64_t{*last} - *first + 1, messages::max_workers));
    for (auto i = *first; i <= *last; ++i) // as wide as the lower end is written
      if (!expand(tail, fmt::format("{}{:0{}}", head, i, low.size())))
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
    if (equals == std::string_view::npos ? !hosts.add_written(item)
                                         : !hosts.add(item.substr(0, equals), item.substr(equals + 1)))
      break;
  }
  return hosts.take();
}

host_list parse_hostfile(std::string_view file) {
  const auto text = storage::to_utf8(std::string(file));
  std::string_view rest = text;
  collector hosts;
  for (std::size_t line_number = 1; !rest.empty(); ++line_number) {
    auto line = take_item(rest, '\n');
    line = trimmed(line.substr(0, line.find('#')));
    const auto host = line.substr(0, line.find_first_of(blanks));
    if (!host.empty() && !hosts.add_written(host)) {
      hosts.place_problem(line_number);
      break;
    }
    for (line.remove_prefix(host.size()); !(line = trimmed(line)).empty();) {
      const auto word = line.substr(0, line.find_first_of(blanks));
      if (!is_left_aside_silently(word, host))
        hosts.leave_aside(word, line_number);
      line.remove_prefix(word.size());
    }
  }
  return hosts.take();
}

} // namespace dynamix::node
