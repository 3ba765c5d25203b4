#include "simulator/slowdown_course.hpp"

#include <algorithm>
#include <iterator>
#include <limits>

namespace dynamix::simulator {

void slowdown_course::change_at(double seconds, double factor) {
  pieces_.push_back({.begin = seconds, .done = work_within(seconds), .factor = factor});
}

double slowdown_course::constant_seconds() const {
  return pieces_.size() > 1 ? pieces_[1].begin : std::numeric_limits<double>::infinity();
}

double slowdown_course::seconds(double work) const {
  const auto& in = *std::prev(std::ranges::upper_bound(pieces_.begin() + 1, pieces_.end(), work, {}, &piece::done));
  return in.begin + (work - in.done) * in.factor;
}

double slowdown_course::work_within(double seconds) const {
  const auto& in = *std::prev(std::ranges::upper_bound(pieces_.begin() + 1, pieces_.end(), seconds, {}, &piece::begin));
  return in.done + (seconds - in.begin) / in.factor;
}

} // namespace dynamix::simulator
