#pragma once

/// The checks that validation is made of. Only for validation.cpp.

#include "messages/types.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace dynamix::messages {

inline constexpr double unbounded = std::numeric_limits<double>::max(); ///< but finite
inline constexpr std::uint64_t any = std::numeric_limits<std::uint64_t>::max();

enum class lines : std::uint8_t { one, many };

/// Goes through the fields of one struct and keeps the first fault.
class checker {
public:
  void require(bool holds, std::string_view name, std::string_view rule);
  void number(std::string_view name, double value, double low, double high = unbounded);
  void count(std::string_view name, std::uint64_t value, std::uint64_t low, std::uint64_t high);
  void text(std::string_view name, const std::string& value, std::size_t low, std::size_t high, lines allowed);
  /// A cluster's or host's name.
  void name(std::string_view field, const std::string& value) { text(field, value, 1, max_name_length, lines::one); }
  /// A generation, window or number of steps.
  void counter(std::string_view name, std::uint64_t value, std::uint64_t low = 0) {
    count(name, value, low, max_counter);
  }
  void key(std::string_view name, decision_key value);
  /// Rising, each below max_workers, from `low` to `high` of them.
  void ranks(std::string_view name, const std::vector<std::uint32_t>& value, std::size_t low, std::size_t high);
  void nested(const std::string& prefix, const std::string& fault);

  std::string take() { return std::move(fault_); }

private:
  std::string fault_;
};

} // namespace dynamix::messages
