#include "settings/field.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <utility>

namespace dynamix::settings {
namespace {

std::string names_of(const std::vector<std::uint8_t>& numbers, std::span<const std::string_view> choices) {
  std::vector<std::string_view> names;
  for (const auto number : numbers)
    names.push_back(choices[number]);
  return quoted_list(names);
}

/// "a list of 1 to 64 " before what it is a list of.
std::string list_of(const bound_field& of, const std::string& what) {
  const std::string count = of.entries.most == 0 ? "" : fmt::format("{} to {} ", of.entries.least, of.entries.most);
  return fmt::format("a list of {}{}", count, what);
}

struct allowed_words {
  const bound_field& of;

  std::string integer() const { return "an integer in " + to_string(of.allowed); }
  std::string choice() const { return (of.choices.size() == 1 ? "" : "one of ") + quoted_list(of.choices); }

  std::string operator()(const double*) const { return "a number in " + to_string(of.allowed); }
  std::string operator()(const std::uint16_t*) const { return integer(); }
  std::string operator()(const std::uint32_t*) const { return integer(); }
  std::string operator()(const std::uint64_t*) const { return integer(); }
  std::string operator()(const bool*) const { return "true or false"; }
  std::string operator()(const std::optional<bool>*) const { return "true, false or \"auto\""; }
  std::string operator()(const std::string*) const {
    return !of.choices.empty() ? choice() : of.rule != nullptr ? std::string(of.rule->words) : "a string";
  }
  std::string operator()(enumeration) const { return choice(); }
  std::string operator()(const std::vector<double>*) const {
    return list_of(of, "numbers in " + to_string(of.allowed));
  }
  std::string operator()(const std::vector<std::int32_t>*) const {
    return list_of(of, "integers in " + to_string(of.allowed));
  }
  std::string operator()(const std::vector<std::string>*) const {
    return (of.entries.bare ? "a string or " : "") + list_of(of, "strings");
  }
  std::string operator()(enumeration_list) const {
    return of.entries.bare ? choice() + ", or " + list_of(of, "of them") : list_of(of, quoted_list(of.choices));
  }
};

struct value_words {
  const bound_field& of;

  std::string operator()(const double* value) const { return number_text(*value); }
  std::string operator()(const std::uint16_t* value) const { return std::to_string(*value); }
  std::string operator()(const std::uint32_t* value) const { return std::to_string(*value); }
  std::string operator()(const std::uint64_t* value) const { return std::to_string(*value); }
  std::string operator()(const bool* value) const { return *value ? "true" : "false"; }
  std::string operator()(const std::optional<bool>* value) const {
    return !*value ? "\"auto\"" : **value ? "true" : "false";
  }
  std::string operator()(const std::string* value) const { return quoted(*value); }
  std::string operator()(enumeration value) const { return quoted(of.choices[*value.value]); }
  std::string operator()(const std::vector<double>* list) const {
    std::string text;
    for (const auto value : *list)
      text += (text.empty() ? "" : ", ") + number_text(value);
    return "[" + text + "]";
  }
  std::string operator()(const std::vector<std::int32_t>* list) const {
    return fmt::format("[{}]", fmt::join(*list, ", "));
  }
  std::string operator()(const std::vector<std::string>* list) const {
    return "[" + quoted_list(std::vector<std::string_view>(list->begin(), list->end())) + "]";
  }
  std::string operator()(enumeration_list list) const {
    return "[" + names_of(list.numbers(list.list), of.choices) + "]";
  }
};

/// Insertions, deletions, substitutions and exchanges of neighbours (optimal string alignment).
std::size_t edit_distance(std::string_view left, std::string_view right) {
  std::vector<std::size_t> above;
  std::vector<std::size_t> row(right.size() + 1);
  for (std::size_t j = 0; j <= right.size(); ++j)
    row[j] = j;
  for (std::size_t i = 1; i <= left.size(); ++i) {
    auto next = row;
    next[0] = i;
    for (std::size_t j = 1; j <= right.size(); ++j) {
      next[j] = std::min({row[j] + 1, next[j - 1] + 1, row[j - 1] + (left[i - 1] == right[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1])
        next[j] = std::min(next[j], above[j - 2] + 1);
    }
    above = std::exchange(row, std::move(next));
  }
  return row.back();
}

} // namespace

bool range::contains(double value) const {
  const bool above = low_open ? value > low : value >= low;
  const bool below = high_open ? value < high : value <= high;
  return above && below; // false for NaN
}

std::string to_string(const range& allowed) {
  return fmt::format("{}{}, {}{}", allowed.low_open ? "(" : "[", number_text(allowed.low), number_text(allowed.high),
                     allowed.high_open ? ")" : "]");
}

std::string bound_field::label() const {
  return fmt::format("{}.{}", section, name);
}

std::string allowed_text(const bound_field& of) {
  return std::visit(allowed_words{of}, of.at);
}

std::string value_text(const bound_field& of) {
  return std::visit(value_words{of}, of.at);
}

std::string to_toml(std::span<const bound_field> fields) {
  std::string text;
  for (const auto& each : fields)
    text.append(each.name).append(" = ").append(value_text(each)).append("\n");
  return text;
}

std::string to_markdown(const std::string& header, std::span<const bound_field> defaults) {
  std::string text = fmt::format("### `{}`\n\n| field | default | allowed | meaning |\n|---|---|---|---|\n", header);
  for (const auto& each : defaults)
    text += fmt::format("| `{}` | {} | {} | {} |\n", each.name,
                        each.presence == presence::required ? "required"
                        : each.presence == presence::absent ? "none"
                                                            : "`" + value_text(each) + "`",
                        allowed_text(each), each.doc);
  return text + "\n";
}

std::string number_text(double value) {
  // Shortest digits; plain notation where a person would write it so.
  const bool plain = value == 0 || (std::abs(value) >= 1e-5 && std::abs(value) < 1e16);
  std::array<char, 64> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 plain ? std::chars_format::fixed : std::chars_format::scientific);
  return {buffer.data(), end.ptr};
}

std::string quoted(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 2);
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out += '\\';
    out += c;
  }
  out += '"';
  return out;
}

std::string quoted_list(std::span<const std::string_view> names) {
  std::string text;
  for (const auto name : names)
    text += (text.empty() ? "" : ", ") + quoted(name);
  return text;
}

std::string shown(const std::string& value) {
  std::string text = value.substr(0, 60);
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 32 || c == 127; }, '?');
  return quoted(text) + (value.size() > 60 ? "..." : "");
}

std::string suggestion(std::string_view wrong, std::span<const std::string_view> names) {
  wrong = wrong.substr(0, 64);
  std::string_view best;
  std::size_t best_distance = 2 * (std::max<std::size_t>(1, wrong.size() / 3) + 1); // doubled, as all here
  for (const auto name : names) {
    auto distance = 2 * edit_distance(wrong, name);
    if (wrong.size() >= 4) // of a long word the beginning may be all that was written; the whole is likelier
      distance = std::min(distance, 2 * edit_distance(wrong, name.substr(0, wrong.size())) + 1);
    if (distance < best_distance) {
      best = name;
      best_distance = distance;
    }
  }
  return best.empty() ? "" : "did you mean " + quoted(best) + "? ";
}

bool is_line(std::string_view text, std::size_t bytes) {
  return text.size() <= bytes && std::ranges::none_of(text, [](unsigned char c) { return c < 32 || c == 127; });
}

} // namespace dynamix::settings
