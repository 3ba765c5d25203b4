#pragma once

/// A table of fields: one row gives a field's reading, range, default and documentation, and the words of its errors.
/// Cluster files, fault plans, device profiles and workloads are read, written and documented by such tables.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

namespace dynamix::settings {

/// An enumeration seen as its number; `field::choices` names the numbers in order.
struct enumeration {
  std::uint8_t* value;
};
/// A list of enumerations seen as their numbers.
struct enumeration_list {
  void* list;
  std::vector<std::uint8_t> (*numbers)(const void* list);
  void (*assign)(void* list, const std::vector<std::uint8_t>& numbers);
};

/// Where a field's value lives. An optional boolean without a value is "auto".
using target = std::variant<double*, std::uint16_t*, std::uint32_t*, std::uint64_t*, bool*, std::optional<bool>*,
                            std::string*, enumeration, std::vector<double>*, std::vector<std::int32_t>*,
                            std::vector<std::string>*, enumeration_list>;

/// The numbers that a field, or each element of its list, may take.
struct range {
  double low = 0;
  double high = 0;
  bool low_open = false;
  bool high_open = false;

  bool contains(double value) const;
};
std::string to_string(const range& allowed);

constexpr range open_low(double high) {
  return {0, high, true, false};
}
constexpr range closed(double low, double high) {
  return {low, high, false, false};
}

/// What a string may be, and how a person is told.
struct text_rule {
  bool (*accepts)(const std::string& text);
  std::string_view words;
};

/// Of a list; `most` = 0: no limit but the file's.
struct entry_count {
  std::size_t least = 0;
  std::size_t most = 0;
  bool bare = false; ///< one entry may stand without brackets
};

enum class presence : std::uint8_t {
  defaulted, ///< its default stands in for it
  required,
  absent ///< its default stands for "not given"
};

template <class Record>
struct field {
  std::string_view section;
  std::string_view name;
  target (*locate)(Record& record);
  std::string_view doc;
  range allowed = {};
  std::span<const std::string_view> choices = {}; ///< of an enumeration, a list of them, or a string
  const text_rule* rule = nullptr;                ///< of a string, or each of a list
  settings::presence presence = presence::defaulted;
  entry_count entries = {}; ///< of a list
  std::uint32_t mark = 0;   ///< for the table's owner
};

/// A field of one record: its row without the record's type, and where its value lives.
struct bound_field {
  std::string_view section;
  std::string_view name;
  std::string_view doc;
  range allowed;
  std::span<const std::string_view> choices;
  const text_rule* rule;
  settings::presence presence;
  entry_count entries;
  target at;

  /// "section.name"
  std::string label() const;
};

template <class Record>
bound_field bind(const field<Record>& of, Record& record) {
  return {of.section, of.name, of.doc, of.allowed, of.choices, of.rule, of.presence, of.entries, of.locate(record)};
}
/// The rows of a section, of all sections where it is empty.
template <class Record>
std::vector<bound_field> bind(std::span<const field<Record>> fields, std::type_identity_t<Record>& record,
                              std::string_view section = {}) {
  std::vector<bound_field> bound;
  for (const auto& each : fields)
    if (section.empty() || each.section == section)
      bound.push_back(bind(each, record));
  return bound;
}
/// The same to be read from only.
template <class Record>
std::vector<bound_field> show(std::span<const field<Record>> fields, const std::type_identity_t<Record>& record,
                              std::string_view section = {}) {
  return bind(fields, const_cast<Record&>(record), section);
}

/// The sections of a table in its order.
template <class Record>
std::vector<std::string_view> sections_of(std::span<const field<Record>> fields) {
  std::vector<std::string_view> sections;
  for (const auto& each : fields)
    if (sections.empty() || sections.back() != each.section)
      sections.push_back(each.section);
  return sections;
}

template <class Value>
target refer(Value& value) {
  if constexpr (std::is_enum_v<Value>) {
    static_assert(std::is_same_v<std::underlying_type_t<Value>, std::uint8_t>);
    return enumeration{reinterpret_cast<std::uint8_t*>(&value)};
  } else {
    return &value;
  }
}
template <class Value>
requires std::is_enum_v<Value> target refer(std::vector<Value>& values) {
  using list = std::vector<Value>;
  return enumeration_list{&values,
                          [](const void* from) {
                            std::vector<std::uint8_t> numbers;
                            for (const auto each : *static_cast<const list*>(from))
                              numbers.push_back(static_cast<std::uint8_t>(each));
                            return numbers;
                          },
                          [](void* into, const std::vector<std::uint8_t>& numbers) {
                            static_cast<list*>(into)->clear();
                            for (const auto each : numbers)
                              static_cast<list*>(into)->push_back(static_cast<Value>(each));
                          }};
}

template <class Member>
struct member_of;
template <class Value, class Record>
struct member_of<Value Record::*> {
  using record = Record;
};
/// A row's locator: in<&file::training, &training::epochs>.
template <auto First, auto... Rest>
target in(typename member_of<decltype(First)>::record& record) {
  return refer(((record.*First).*....*Rest));
}

/// "a number in (0, 10]", "one of "sgd", "adam"" ...
std::string allowed_text(const bound_field& of);
/// The value as TOML writes it.
std::string value_text(const bound_field& of);
/// NAME = VALUE, a line each.
std::string to_toml(std::span<const bound_field> fields);
/// A table of the fields under "### `HEADER`"; `defaults` are bound to a record as it is made.
std::string to_markdown(const std::string& header, std::span<const bound_field> defaults);

/// Shortest decimal text that reads back as the same number.
std::string number_text(double value);
/// A string as a TOML basic string.
std::string quoted(std::string_view text);
/// The names joined as `"a", "b"`.
std::string quoted_list(std::span<const std::string_view> names);
/// A value as a message shows it: quoted, short, and without control characters.
std::string shown(const std::string& value);
/// "did you mean X? " for the nearest of `names`, when one is near; else empty.
std::string suggestion(std::string_view wrong, std::span<const std::string_view> names);
/// Of at most `bytes` bytes, none of them a control character: those would spoil every message that shows the text.
bool is_line(std::string_view text, std::size_t bytes);

} // namespace dynamix::settings
