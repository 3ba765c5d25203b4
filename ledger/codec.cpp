/// A ledger's rows as JSON: written straight from the structs, read through simdjson. A window of 1,024 workers,
/// some 2.5 MB, is written and read every second beside the arbitrator's own work.

#include "ledger/codec.hpp"

#include "ledger/fields.hpp"
#include "storage/json_text.hpp"

#include <limits>
#include <simdjson.h>
#include <string_view>
#include <utility>

namespace dynamix::ledger {

namespace {

using simdjson::dom::element;
using storage::json_text;

/// Values of "kind", in the order of entry's alternatives.
constexpr const char* kinds[] = {"start", "window",   "evaluation", "policy",   "generation",
                                 "event", "farewell", "shard",      "deciding", "tree"};
static_assert(std::size(kinds) == std::variant_size_v<entry>);

template <class T>
constexpr bool is_vector = false;
template <class T>
constexpr bool is_vector<std::vector<T>> = true;

template <class T>
void put(json_text& to, const T& value);

template <class T>
void put_fields(json_text& to, const T& value) {
  for_each_field(value, [&to](std::string_view name, const auto& field) {
    to.key(name);
    put(to, field);
  });
}

template <class T>
void put(json_text& to, const T& value) {
  if constexpr (std::floating_point<T>) {
    to.exact(value);
  } else if constexpr (std::is_enum_v<T>) {
    to.value(messages::name_of(value));
  } else if constexpr (std::integral<T> || std::same_as<T, std::string>) {
    to.value(value);
  } else if constexpr (is_vector<T>) {
    to.open_array();
    for (const auto& one : value)
      put(to, one);
    to.close_array();
  } else {
    to.open_object();
    put_fields(to, value);
    to.close_object();
  }
}

/// The functions below are false for a value of another type or out of range.
template <std::floating_point T>
bool take(element from, T& to) {
  double value = std::numeric_limits<double>::quiet_NaN(); // what is written as null
  if (!from.is_null() && from.get(value) != simdjson::SUCCESS)
    return false;
  to = static_cast<T>(value);
  return true;
}

template <std::integral T>
bool take(element from, T& to) {
  std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t> value{};
  if (from.get(value) != simdjson::SUCCESS || !std::in_range<T>(value))
    return false;
  to = static_cast<T>(value);
  return true;
}

bool take(element from, bool& to) {
  return from.get(to) == simdjson::SUCCESS;
}

bool take(element from, std::string& to) {
  std::string_view text;
  if (from.get(text) != simdjson::SUCCESS)
    return false;
  to = text;
  return true;
}

/// A name that this release does not know is the enumeration's zero.
template <class T>
requires std::is_enum_v<T>
bool take(element from, T& to) {
  std::string_view text;
  if (from.get(text) != simdjson::SUCCESS)
    return false;
  to = messages::from_name<T>(text).value_or(T{});
  return true;
}

template <class T>
bool take(element from, T& to);

template <class T>
bool take(element from, std::vector<T>& to) {
  simdjson::dom::array items;
  if (from.get(items) != simdjson::SUCCESS)
    return false;
  to.clear();
  to.reserve(items.size());
  for (const auto item : items)
    if (!take(item, to.emplace_back()))
      return false;
  return true;
}

template <class T>
bool take(element from, T& to) {
  simdjson::dom::object object;
  if (from.get(object) != simdjson::SUCCESS)
    return false;
  bool fits = true;
  for_each_field(to, [&](std::string_view name, auto& field) {
    element found;
    if (fits && object[name].get(found) == simdjson::SUCCESS)
      fits = take(found, field);
  });
  return fits;
}

template <std::size_t Index = 0>
bool take_entry(element from, std::string_view kind, entry& to) {
  if constexpr (Index == std::variant_size_v<entry>) {
    return false;
  } else {
    return kind == kinds[Index] ? take(from, to.emplace<Index>()) : take_entry<Index + 1>(from, kind, to);
  }
}

/// Its memory is used again for the next line of the same thread.
simdjson::dom::parser& parser() {
  thread_local simdjson::dom::parser kept;
  return kept;
}

} // namespace

std::string to_json_line(const row& row) {
  json_text text;
  text.open_object().member("kind", kinds[row.entry.index()]).key("at_seconds").exact(row.at_seconds);
  std::visit([&text](const auto& entry) { put_fields(text, entry); }, row.entry);
  return text.close_object().take();
}

std::optional<row> parse_line(const std::string& line) {
  element object;
  std::string_view kind;
  row row;
  if (parser().parse(line).get(object) != simdjson::SUCCESS || object["kind"].get(kind) != simdjson::SUCCESS ||
      !take_entry(object, kind, row.entry))
    return std::nullopt;
  if (element at; object["at_seconds"].get(at) == simdjson::SUCCESS && !take(at, row.at_seconds))
    return std::nullopt;
  return row;
}

std::string to_json(const messages::farewell& farewell, const std::vector<messages::evaluation_report>& evaluations) {
  json_text text(storage::json_layout::indented);
  text.open_object().key("farewell");
  put(text, farewell);
  text.key("evaluations");
  put(text, evaluations);
  return text.close_object().take() + "\n";
}

bool parse_worker_file(const std::string& text, messages::farewell& farewell,
                       std::vector<messages::evaluation_report>& evaluations) {
  element object;
  element first;
  element second;
  return parser().parse(text).get(object) == simdjson::SUCCESS && object["farewell"].get(first) == simdjson::SUCCESS &&
         take(first, farewell) && object["evaluations"].get(second) == simdjson::SUCCESS && take(second, evaluations);
}

} // namespace dynamix::ledger
