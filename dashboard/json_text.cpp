#include "dashboard/json_text.hpp"

#include <nlohmann/json.hpp>

#include <charconv>
#include <cmath>

namespace dynamix::dashboard {

json_text& json_text::open(char bracket) {
  separate();
  text_ += bracket;
  first_ = true;
  return *this;
}

json_text& json_text::close(char bracket) {
  text_ += bracket;
  first_ = false;
  return *this;
}

void json_text::separate() {
  if (!first_)
    text_ += ',';
  first_ = false;
}

json_text& json_text::key(std::string_view name) {
  value(name);
  text_ += ':';
  first_ = true;
  return *this;
}

json_text& json_text::value(std::string_view text) {
  separate();
  text_ += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return *this;
}

json_text& json_text::value(bool truth) {
  separate();
  text_ += truth ? "true" : "false";
  return *this;
}

json_text& json_text::value(double number) {
  separate();
  if (!std::isfinite(number)) {
    text_ += "null";
    return *this;
  }
  char digits[32];
  const auto [end, error] = std::to_chars(digits, digits + sizeof digits, number, std::chars_format::general, 6);
  text_.append(digits, error == std::errc() ? end : digits);
  return *this;
}

json_text& json_text::integer(std::uint64_t number) {
  separate();
  text_ += std::to_string(number);
  return *this;
}

} // namespace dynamix::dashboard
