#pragma once

/// What the rows of messages/fields.def say of each struct's fields, for code that goes through all of them.

#include "messages/types.hpp"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

namespace dynamix::messages {

/// Nothing to check, or nothing but what the type itself asks for.
struct no_rule {};

/// The number is in [low, high], and finite. Where it `caps`, an honest host can get beyond `high` (a process that was
/// paused for a week, a run that diverged): what is finite and above is taken as `high` where a frame is read.
template <class T>
struct range_rule {
  T low;
  T high;
  bool caps = false;
};

/// The number as it is taken.
template <class T>
constexpr T capped(T value, const range_rule<T>& rule) {
  return rule.caps && value > rule.high && value <= std::numeric_limits<T>::max() ? rule.high : value;
}

/// The text is UTF-8 of `low` to `high` bytes, without control characters, but for newlines and tabs where it has
/// `lines`.
struct text_rule {
  std::size_t low;
  std::size_t high;
  bool lines;
};

/// `low` to `high` elements, each valid.
struct list_rule {
  std::size_t low;
  std::size_t high;
  bool rising = false; ///< by rank
};

/// The rules that a row may name, by the field's type.
template <class T>
struct rules_for {
  static constexpr no_rule valid = {}; ///< a struct, by its own rules
};

template <>
struct rules_for<bool> {
  static constexpr no_rule any = {};
};

template <class T>
requires std::is_enum_v<T>
struct rules_for<T> {
  static constexpr no_rule known = {}; ///< one of the list's enumerators
};

template <class T>
requires std::is_integral_v<T>
struct rules_for<T> {
  static constexpr T highest = std::numeric_limits<T>::max();
  static constexpr range_rule<T> any = {std::numeric_limits<T>::lowest(), highest}; ///< of what is drawn or hashed
  static constexpr range_rule<T> at_least(T low) { return {low, highest}; }
  static constexpr range_rule<T> between(T low, T high) { return {low, high}; }
  /// A generation, term, window or number of steps; anything that is counted.
  static constexpr range_rule<T> counter_from(T low) { return {low, static_cast<T>(max_counter)}; }
};

/// Every one has a bound that no sane cluster gets beyond, so that sums and products of them are finite.
template <class T>
requires std::is_floating_point_v<T>
struct rules_for<T> {
  static constexpr range_rule<T> between(T low, T high) { return {low, high}; }
  static constexpr range_rule<T> up_to(T high) { return {0, high, true}; } ///< caps
  static constexpr range_rule<T> seconds = up_to(max_seconds);             ///< within a window
  static constexpr range_rule<T> run_seconds = up_to(max_run_seconds);
  static constexpr range_rule<T> magnitude = up_to(max_magnitude);
  static constexpr range_rule<T> sum = up_to(max_sum);
  static constexpr range_rule<T> loss = {-max_magnitude, max_magnitude, true}; ///< caps
  static constexpr range_rule<T> any_sign = {-max_magnitude, max_magnitude};
};

template <>
struct rules_for<std::string> {
  static constexpr text_rule name = {1, max_name_length, false};
  static constexpr text_rule name_or_none = {0, max_name_length, false};
  static constexpr text_rule key = {1, max_key_length, false};
  static constexpr text_rule text = {0, max_text_length, true}; ///< for a person
};

/// Bytes and finite numbers have nothing more to check; a text is a key of a store.
template <class T>
struct rules_for<std::vector<T>> {
  static constexpr list_rule items(std::size_t low, std::size_t high) { return {low, high}; }
  /// Structs by rising rank.
  static constexpr list_rule by_rank(std::size_t low, std::size_t high) { return {low, high, true}; }
};

/// Ranks, rising, each below max_workers.
template <>
struct rules_for<std::vector<std::uint32_t>> {
  static constexpr list_rule ranks(std::size_t low, std::size_t high) { return {low, high, true}; }
};

/// `visit(name, field, rule)` for each field, in order.
#define STRUCT(type, Schema)                                                                                           \
  template <class Self, class Visit>                                                                                   \
  requires std::same_as<std::remove_const_t<Self>, type>                                                               \
  constexpr void for_each_row(Self& of, Visit&& visit) {
#define FIELD(type, name, Name, rule, ...) visit(#name, of.name, rules_for<type>::rule);
#define END(type) }
#include "messages/fields.def"

/// `visit(name, field)` for each field, in order.
template <class Self, class Visit>
requires requires(Self& of) {
  for_each_row(of, [](const char*, auto&, const auto&) {});
}
constexpr void for_each_field(Self& of, Visit&& visit) {
  for_each_row(of, [&visit](const char* name, auto& field, const auto&) { visit(name, field); });
}

} // namespace dynamix::messages
