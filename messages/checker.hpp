#pragma once

/// The checks that validation is made of. Only for messages/validation.cpp and messages/rules.cpp.

#include "messages/fields.hpp"

#include <cstddef>
#include <limits>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace dynamix::messages {

/// Goes through the fields of one struct and keeps the first fault.
class checker {
public:
  void require(bool holds, std::string_view name, std::string_view rule) {
    if (!holds && fault_.empty())
      fault_ = std::string(name) + " " + std::string(rule);
  }

  template <class T>
  void range(std::string_view name, T value, T low, T high, bool caps = false) {
    const bool holds = value >= low && value <= (caps ? std::numeric_limits<T>::max() : high); // false for NaN
    if (holds || !fault_.empty())
      return;
    std::ostringstream out;
    out << name << " = " << value << " is not in [" << low << ", " << high << "]";
    fault_ = out.str();
  }

  void size(std::string_view name, std::size_t value, std::size_t low, std::size_t high);
  void text(std::string_view name, const std::string& value, const text_rule& rule);
  void ranks(std::string_view name, const std::vector<std::uint32_t>& value);
  /// `fault` of the struct or element `name`; empty: none.
  void nested(std::string_view name, const std::string& fault);

  std::string take() { return std::move(fault_); }

private:
  std::string fault_;
};

/// "reports[3]"
std::string element(std::string_view name, std::size_t index);

} // namespace dynamix::messages
