#pragma once

/// Values made from the rows of messages/fields.def, so that a new field is in the tests with its row.

#include "messages/codec.hpp"
#include "messages/fields.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

namespace dynamix::messages {

/// A value that the row allows, not the default, and other than its neighbours' (`number` counts them).
inline void fill_field(bool& field, no_rule, std::uint32_t&) {
  field = true;
}

template <class T>
requires std::is_enum_v<T>
void fill_field(T& field, no_rule, std::uint32_t&) {
  field = std::rbegin(names_of<T>::table)->value;
}

template <class T>
void fill_field(T& field, const range_rule<T>& rule, std::uint32_t& number) {
  ++number;
  const auto span = static_cast<double>(rule.high) - static_cast<double>(rule.low);
  const double small = span <= 2 ? span * number / (number + 1) : std::min(1.0 + number, span); // exact where it counts
  field = rule.low > std::numeric_limits<T>::lowest() ? static_cast<T>(static_cast<double>(rule.low) + small)
                                                      : std::min(static_cast<T>(number), rule.high);
}

inline void fill_field(std::string& field, const text_rule&, std::uint32_t& number) {
  field = "text " + std::to_string(++number);
}

template <class T>
T filled(std::uint32_t& number);

template <class T>
requires std::is_class_v<T>
void fill_field(T& field, no_rule, std::uint32_t& number) {
  field = filled<T>(number);
}

template <class T>
void fill_field(std::vector<T>& field, const list_rule& rule, std::uint32_t& number) {
  for (std::size_t i = 0; i < std::max<std::size_t>(rule.low, 1); ++i)
    if constexpr (std::is_same_v<T, std::string>)
      field.push_back("key " + std::to_string(++number));
    else if constexpr (std::is_arithmetic_v<T>)
      field.push_back(static_cast<T>(++number % 250));
    else
      field.push_back(filled<T>(number));
}

/// The rules between fields, which no row knows.
inline void fit_together(auto&) {}
inline void fit_together(hello& value) {
  value.attempted_steps = value.steps + 1;
  value.left_because.clear(); // it trains
}
inline void fit_together(decision_counts& value) {
  value = {
      .received = 149, .applied = 145, .late = 2, .superseded = 3, .unapplied = 1, .stale_refused = 4, .duplicated = 5};
}
inline void fit_together(farewell& value) {
  value.end = farewell_end::completed;
}
inline void fit_together(shard_report& value) {
  value.window = value.reports[0].window + 1;
  value.generation = value.reports[0].generation;
}
inline void fit_together(store_operation& value) {
  value = {.verb = store_verb::add, .keys = std::move(value.keys), .value = {}, .amount = value.amount};
}
inline void fit_together(store_result& value) {
  value.status = store_status::ok;
}
inline void fit_together(placement& value) {
  value.source = value.members[0];
}
inline void fit_together(shard_window& value) {
  value.window = value.reports[0].window + 1;
  value.generation = value.reports[0].generation;
  value.choices[0].rank = value.reports[0].rank;
}

inline void fit_together(client_hello& value) {
  value.members = value.position + 1;
}
inline void fit_together(client_welcome& value) {
  value.verdict = client_verdict::accepted;
  value.workers = value.rank + 1;
  value.window_steps = value.settle_steps + 1;
  value.highest_batch = value.lowest_batch + 2;
  value.initial_batch = value.lowest_batch + 1;
}

/// A valid T in which no field is at its default.
template <class T>
T filled(std::uint32_t& number) {
  T value;
  for_each_row(value, [&number](const char*, auto& field, const auto& rule) { fill_field(field, rule, number); });
  fit_together(value);
  return value;
}

template <class T>
T filled() {
  std::uint32_t number = 0;
  return filled<T>(number);
}

/// One of each kind.
inline std::vector<any_message> filled_messages() {
  return {
#define MESSAGE(type, Schema) filled<type>(),
#include "messages/fields.def"
  };
}

} // namespace dynamix::messages
