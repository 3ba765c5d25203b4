#include "messages/wire.hpp"

#include "messages/fields.hpp"

#include <algorithm>

namespace dynamix::messages::wire {
namespace {

// Writing. `fill` of a struct sets its fields one by one.

#define STRUCT(type, Schema)                                                                                           \
  template <class To>                                                                                                  \
  void fill(const type& from, To to);
#include "messages/fields.def"

template <class T>
constexpr bool is_list = false;
template <class T>
constexpr bool is_list<std::vector<T>> = true;
template <>
constexpr bool is_list<std::vector<std::uint8_t>> = false; // one value: Data

template <class T>
constexpr bool is_struct = std::is_class_v<T> && !is_list<T> && !std::is_same_v<T, std::string> &&
                           !std::is_same_v<T, std::vector<std::uint8_t>>;

/// The enumerators have the schema's numbers.
template <class Wire, class T>
requires std::is_enum_v<T> Wire wire_value(T value) {
  return static_cast<Wire>(static_cast<std::uint16_t>(value));
}

template <class Wire, class T>
requires std::is_arithmetic_v<T> Wire wire_value(T value) {
  return value;
}

/// The whole text: by itself, Cap'n Proto ends a std::string at its first zero byte.
template <class>
capnp::Text::Reader wire_value(const std::string& text) {
  return {text.c_str(), text.size()};
}

template <class>
capnp::Data::Reader wire_value(const std::vector<std::uint8_t>& bytes) {
  return {bytes.data(), bytes.size()};
}

template <class T, class List>
void fill_list(const std::vector<T>& from, List to) {
  for (unsigned i = 0; i < to.size(); ++i)
    if constexpr (is_struct<T>)
      fill(from[i], to[i]);
    else
      to.set(i, wire_value<T>(from[i]));
}

unsigned size_of(const auto& list) {
  return static_cast<unsigned>(list.size());
}

#define STRUCT(type, Schema)                                                                                           \
  template <class To>                                                                                                  \
  void fill(const type& from, To to) {
#define FIELD(type, name, Name, rule, ...)                                                                             \
  if constexpr (is_list<type>)                                                                                         \
    fill_list(from.name, to.init##Name(size_of(from.name)));                                                           \
  else if constexpr (is_struct<type>)                                                                                  \
    fill(from.name, to.init##Name());                                                                                  \
  else                                                                                                                 \
    to.set##Name(wire_value<decltype(to.get##Name())>(from.name));
#define OPTIONAL_FIELD(type, name, ...)                                                                                \
  if (from.name != type{}) {                                                                                           \
    FIELD(type, name, __VA_ARGS__)                                                                                     \
  }
#define END(type) }
#include "messages/fields.def"

// Reading.

#define STRUCT(type, Schema) type take(schema::Schema::Reader from);
#include "messages/fields.def"

/// How much of a list or text to take: all of it, or one element too many.
template <class List>
unsigned bounded(const List& list, std::size_t limit) {
  return static_cast<unsigned>(std::min<std::size_t>(list.size(), limit + 1));
}

/// An enumerant that does not fit must not wrap around to one that does.
template <class Wire, class T>
requires std::is_enum_v<T>
void take(Wire from, T& to, no_rule) {
  const auto number = static_cast<std::uint16_t>(from);
  to = static_cast<T>(number > std::numeric_limits<std::uint8_t>::max() ? 0 : number);
}

void take(bool from, bool& to, no_rule) {
  to = from;
}

template <class T>
void take(T from, T& to, const range_rule<T>& rule) {
  to = capped(from, rule);
}

void take(capnp::Text::Reader from, std::string& to, const text_rule& rule) {
  to.assign(from.begin(), bounded(from, rule.high));
}

template <class Reader, class T>
requires std::is_class_v<T>
void take(Reader from, T& to, no_rule) {
  to = take(from);
}

void take(capnp::Data::Reader from, std::vector<std::uint8_t>& to, const list_rule& rule) {
  to.assign(from.begin(), from.begin() + bounded(from, rule.high));
}

template <class List, class T>
void take(List from, std::vector<T>& to, const list_rule& rule) {
  const auto count = bounded(from, rule.high);
  to.reserve(count);
  for (unsigned i = 0; i < count; ++i)
    if constexpr (std::is_same_v<T, std::string>)
      take(from[i], to.emplace_back(), rules_for<std::string>::key);
    else if constexpr (std::is_class_v<T>)
      to.push_back(take(from[i]));
    else
      to.push_back(from[i]);
}

#define STRUCT(type, Schema)                                                                                           \
  type take(schema::Schema::Reader from) {                                                                             \
    type to;
#define FIELD(type, name, Name, rule, ...) take(from.get##Name(), to.name, rules_for<type>::rule);
#define END(type)                                                                                                      \
  return to;                                                                                                           \
  }
#include "messages/fields.def"

} // namespace

#define MESSAGE(type, Schema)                                                                                          \
  void write(const type& value, schema::Envelope::Builder envelope) {                                                  \
    fill(value, envelope.init##Schema());                                                                              \
  }
#include "messages/fields.def"

std::optional<any_message> read(schema::Envelope::Reader envelope) {
#define MESSAGE(type, Schema)                                                                                          \
  if (envelope.is##Schema())                                                                                           \
    return take(envelope.get##Schema());
#include "messages/fields.def"
  return std::nullopt;
}

} // namespace dynamix::messages::wire
