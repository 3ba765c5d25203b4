#pragma once

/// Rows of a table of fields, each with what limits its kind of value.

#include "settings/field.hpp"

namespace dynamix::settings {

/// Of a string, or a list of strings.
template <class Record>
constexpr field<Record> text_row(std::string_view section, std::string_view name, target (*locate)(Record&),
                                 std::string_view doc, const text_rule& rule, presence needed = presence::defaulted,
                                 entry_count entries = {}) {
  return {.section = section,
          .name = name,
          .locate = locate,
          .doc = doc,
          .rule = &rule,
          .presence = needed,
          .entries = entries};
}

/// Of an enumeration, or a list of them.
template <class Record>
constexpr field<Record> choice_row(std::string_view section, std::string_view name, target (*locate)(Record&),
                                   std::string_view doc, std::span<const std::string_view> choices) {
  return {.section = section, .name = name, .locate = locate, .doc = doc, .choices = choices};
}

/// Of a number without a default, or a list of numbers.
template <class Record>
constexpr field<Record> number_row(std::string_view section, std::string_view name, target (*locate)(Record&),
                                   std::string_view doc, range allowed, presence needed, entry_count entries = {}) {
  return {.section = section,
          .name = name,
          .locate = locate,
          .doc = doc,
          .allowed = allowed,
          .presence = needed,
          .entries = entries};
}

} // namespace dynamix::settings
