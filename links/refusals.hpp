#pragma once

/// Lines about refused peers, however many there are.

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace dynamix::links {

/// Passes on 20 lines per minute; the first line of a later minute comes after one that counts those that were not.
class refusal_lines {
public:
  using time_point = std::chrono::steady_clock::time_point;

  explicit refusal_lines(std::function<void(const std::string&)> report);
  void add(time_point now, const std::string& line);

private:
  std::function<void(const std::string&)> report_;
  time_point minute_begin_{}; ///< from the first line on
  std::uint64_t in_minute_ = 0;
};

} // namespace dynamix::links
