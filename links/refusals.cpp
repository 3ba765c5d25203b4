#include "links/refusals.hpp"

#include <fmt/core.h>
#include <utility>

namespace dynamix::links {
namespace {

constexpr std::uint64_t lines_a_minute = 20;

} // namespace

refusal_lines::refusal_lines(std::function<void(const std::string&)> report) : report_(std::move(report)) {}

void refusal_lines::add(time_point now, const std::string& line) {
  if (in_minute_ == 0 || now - minute_begin_ >= std::chrono::minutes(1)) {
    if (in_minute_ > lines_a_minute)
      report_(fmt::format("refused {} more connections within a minute", in_minute_ - lines_a_minute));
    minute_begin_ = now;
    in_minute_ = 0;
  }
  if (++in_minute_ <= lines_a_minute)
    report_(line);
}

} // namespace dynamix::links
