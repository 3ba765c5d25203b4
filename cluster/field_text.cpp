/// How values, ranges and addresses are read by people and written as TOML.

#include "cluster/fields.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

namespace dynamix::cluster {
namespace {

/// The names of a list of enumeration values, quoted.
template <class Enumeration>
std::string list_text(const std::vector<Enumeration>& values, std::span<const std::string_view> choices) {
  std::vector<std::string_view> chosen;
  for (const auto value : values)
    chosen.push_back(choices[static_cast<std::size_t>(value)]);
  return "[" + quoted_list(chosen) + "]";
}

std::string list_text(const std::vector<std::int32_t>& values, std::span<const std::string_view>) {
  std::string text;
  for (const auto value : values)
    text += (text.empty() ? "" : ", ") + std::to_string(value);
  return "[" + text + "]";
}

std::string list_text(const std::vector<std::string>& values, std::span<const std::string_view>) {
  return "[" + quoted_list(std::vector<std::string_view>(values.begin(), values.end())) + "]";
}

bool is_ipv4(const std::string& text) {
  in_addr v4{};
  return inet_pton(AF_INET, text.c_str(), &v4) == 1;
}

} // namespace

bool range::contains(double value) const {
  const bool above = low_open ? value > low : value >= low;
  const bool below = high_open ? value < high : value <= high;
  return above && below; // false for NaN
}

std::string to_string(const range& allowed) {
  return (allowed.low_open ? "(" : "[") + number_text(allowed.low) + ", " + number_text(allowed.high) +
         (allowed.high_open ? ")" : "]");
}

template <class Record>
std::string allowed_text(const field<Record>& of) {
  Record defaults;
  const target at = of.locate(defaults);
  if (std::holds_alternative<bool*>(at))
    return "true or false";
  if (std::holds_alternative<double*>(at))
    return "a number in " + to_string(of.allowed);
  if (std::holds_alternative<std::vector<std::int32_t>*>(at))
    return "a list of integers in " + to_string(of.allowed);
  if (std::holds_alternative<std::vector<role>*>(at) || std::holds_alternative<std::vector<telemetry_source>*>(at))
    return "a list of " + quoted_list(of.choices);
  if (std::holds_alternative<std::vector<std::string>*>(at))
    return "a list of strings";
  if (!of.choices.empty())
    return (of.choices.size() == 1 ? "" : "one of ") + quoted_list(of.choices);
  if (of.rule != nullptr)
    return std::string(of.rule->words);
  return "an integer in " + to_string(of.allowed);
}

template <class Record>
std::string value_text(const field<Record>& of, const Record& record) {
  const target at = of.locate(const_cast<Record&>(record)); // only read from here
  return std::visit(
      [&](auto place) -> std::string {
        using place_type = decltype(place);
        if constexpr (std::is_same_v<place_type, enumeration>)
          return quoted(of.choices[*place.value]);
        else if constexpr (std::is_same_v<place_type, bool*>)
          return *place ? "true" : "false";
        else if constexpr (std::is_same_v<place_type, double*>)
          return number_text(*place);
        else if constexpr (std::is_same_v<place_type, std::string*>)
          return quoted(*place);
        else if constexpr (std::is_pointer_v<place_type> && std::is_integral_v<std::remove_pointer_t<place_type>>)
          return std::to_string(*place);
        else
          return list_text(*place, of.choices);
      },
      at);
}

template std::string allowed_text(const field<cluster_file>&);
template std::string allowed_text(const field<host_entry>&);
template std::string allowed_text(const field<emulation>&);
template std::string value_text(const field<cluster_file>&, const cluster_file&);
template std::string value_text(const field<host_entry>&, const host_entry&);
template std::string value_text(const field<emulation>&, const emulation&);

std::string number_text(double value) {
  // Shortest digits; plain notation where a person would write it so.
  const bool plain = value == 0 || (std::abs(value) >= 1e-5 && std::abs(value) < 1e16);
  std::array<char, 64> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 plain ? std::chars_format::fixed : std::chars_format::scientific);
  return {buffer.data(), end.ptr};
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string quoted_list(std::span<const std::string_view> names) {
  std::string text;
  for (const auto name : names)
    text += (text.empty() ? "" : ", ") + quoted(name);
  return text;
}

bool is_address(const std::string& text) {
  in6_addr v6{};
  if (inet_pton(AF_INET6, text.c_str(), &v6) == 1)
    return !IN6_IS_ADDR_UNSPECIFIED(&v6);
  if (is_ipv4(text))
    return text != "0.0.0.0"; // a wildcard names no host
  // RFC 1123, and a last label that is not a number, so that a mistyped IPv4 address is none.
  if (text.empty() || text.size() > 253)
    return false;
  std::size_t begin = 0;
  std::string_view label;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find('.', begin), text.size());
    label = std::string_view(text).substr(begin, end - begin);
    const auto fits = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-'; };
    if (label.empty() || label.size() > 63 || label.front() == '-' || label.back() == '-' ||
        !std::all_of(label.begin(), label.end(), fits))
      return false;
    begin = end + 1;
  }
  return !std::all_of(label.begin(), label.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

bool is_loopback(const std::string& address) {
  return address == "localhost" || address == "::1" || (is_ipv4(address) && address.starts_with("127."));
}

} // namespace dynamix::cluster
