#include "storage/json_text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace dynamix::storage {

namespace {

bool is_plain(char letter) {
  return letter >= ' ' && letter <= '~' && letter != '"' && letter != '\\';
}

} // namespace

json_text& json_text::open(char bracket) {
  separate();
  text_ += bracket;
  ++depth_;
  first_ = true;
  return *this;
}

json_text& json_text::close(char bracket) {
  --depth_;
  if (!first_)
    begin_line();
  text_ += bracket;
  first_ = false;
  return *this;
}

void json_text::separate() {
  if (!first_)
    text_ += ',';
  if (depth_ > 0 && !after_key_)
    begin_line();
  first_ = false;
  after_key_ = false;
}

void json_text::begin_line() {
  if (indented_)
    text_.append(1, '\n').append(2 * depth_, ' ');
}

json_text& json_text::key(std::string_view name) {
  value(name);
  text_ += indented_ ? ": " : ":";
  first_ = true;
  after_key_ = true;
  return *this;
}

json_text& json_text::value(std::string_view text) {
  separate();
  if (std::ranges::all_of(text, is_plain))
    text_.append(1, '"').append(text).append(1, '"');
  else
    text_ += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return *this;
}

json_text& json_text::value(bool truth) {
  separate();
  text_ += truth ? "true" : "false";
  return *this;
}

template <class Number, class... Format>
json_text& json_text::number(Number value, Format... format) {
  separate();
  char digits[32];
  const auto [end, error] = std::to_chars(digits, digits + sizeof digits, value, format...);
  text_.append(digits, error == std::errc() ? end : digits);
  return *this;
}

json_text& json_text::value(double value) {
  return std::isfinite(value) ? number(value, std::chars_format::general, 6) : null();
}

json_text& json_text::exact(double value) {
  return std::isfinite(value) ? number(value) : null();
}

json_text& json_text::exact(float value) {
  return std::isfinite(value) ? number(value) : null();
}

json_text& json_text::signed_integer(std::int64_t value) {
  return number(value);
}

json_text& json_text::unsigned_integer(std::uint64_t value) {
  return number(value);
}

json_text& json_text::null() {
  separate();
  text_ += "null";
  return *this;
}

std::string quoted(std::string_view text) {
  return json_text().value(text).take();
}

} // namespace dynamix::storage
