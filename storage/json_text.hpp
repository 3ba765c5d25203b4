#pragma once

/// JSON written straight into a string: a window of 1,024 workers is a hundred thousand numbers.

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace dynamix::storage {

enum class json_layout { one_line, indented };

/// Appends members and elements; whoever calls opens and closes in the right order.
class json_text {
public:
  explicit json_text(json_layout layout = json_layout::one_line) : indented_(layout == json_layout::indented) {}

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
  /// Six significant digits, for people and plots; null where it is not finite.
  json_text& value(double number);
  /// As few digits as give the same number again; null where it is not finite.
  json_text& exact(double number);
  json_text& exact(float number);
  template <std::integral Number>
  requires(!std::same_as<Number, bool>) json_text& value(Number number) {
    if constexpr (std::is_signed_v<Number>)
      return signed_integer(number);
    else
      return unsigned_integer(number);
  }
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
  template <class Number, class... Format>
  json_text& number(Number value, Format... format);
  json_text& signed_integer(std::int64_t value);
  json_text& unsigned_integer(std::uint64_t value);
  json_text& null();
  void separate();
  void begin_line();

  std::string text_;
  bool indented_;
  std::size_t depth_ = 0;  ///< of open objects and arrays
  bool first_ = true;      ///< nothing stands before the next value in its object or array, or its key does
  bool after_key_ = false; ///< its key does
};

/// A JSON string, with its quotes. In the log, too, whose fields a peer's text could otherwise end.
std::string quoted(std::string_view text);

} // namespace dynamix::storage
