#pragma once

/// JSON written straight into a string: a snapshot of 1,024 workers is a quarter of a million numbers.

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace dynamix::dashboard {

/// Appends members and elements; whoever calls opens and closes in the right order.
class json_text {
public:
  json_text& open_object() { return open('{'); }
  json_text& open_array() { return open('['); }
  json_text& close_object() { return close('}'); }
  json_text& close_array() { return close(']'); }
  json_text& key(std::string_view name);
  /// Invalid UTF-8 is replaced.
  json_text& value(std::string_view text);
  json_text& value(const char* text) { return value(std::string_view(text)); }
  json_text& value(const std::string& text) { return value(std::string_view(text)); }
  json_text& value(bool truth);
  /// Six significant digits; null where it is not finite.
  json_text& value(double number);
  template <std::unsigned_integral Number>
  requires(!std::same_as<Number, bool>) json_text& value(Number number) { return integer(number); }
  template <class Value>
  json_text& member(std::string_view name, const Value& content) {
    return key(name).value(content);
  }
  /// An array of what `select` makes of every item.
  template <class Items, class Select>
  json_text& column(std::string_view name, const Items& items, Select select) {
    key(name).open_array();
    for (const auto& item : items)
      value(select(item));
    return close_array();
  }
  std::string take() { return std::move(text_); }

private:
  json_text& open(char bracket);
  json_text& close(char bracket);
  json_text& integer(std::uint64_t number);
  void separate();

  std::string text_;
  bool first_ = true; ///< nothing stands before the next value in its object or array, or its key does
};

} // namespace dynamix::dashboard
