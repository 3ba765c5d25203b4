#include "simulator/episodes.hpp"

#include <algorithm>
#include <cmath>

namespace dynamix::simulator {
namespace {

constexpr double lowest_factor = 1.25;

} // namespace

episodes::episodes(double every_seconds, double mean_seconds, double highest_factor, random_stream numbers)
    : every_seconds_(every_seconds), mean_seconds_(mean_seconds), highest_factor_(highest_factor), numbers_(numbers) {
  draw_next();
}

void episodes::draw_next() {
  const double before = ahead_.empty() ? 0 : ahead_.back().end;
  const double begin = before + numbers_.exponential(every_seconds_);
  const double end = begin + numbers_.exponential(mean_seconds_);
  const double factor = lowest_factor * std::pow(highest_factor_ / lowest_factor, numbers_.uniform());
  ahead_.push_back({begin, end, factor});
}

double episodes::at(double seconds) {
  if (every_seconds_ <= 0)
    return 1;
  while (seconds >= ahead_.front().end) {
    if (ahead_.size() == 1)
      draw_next();
    ahead_.pop_front();
  }
  return seconds >= ahead_.front().begin ? ahead_.front().factor : 1;
}

slowdown_course episodes::course(double begin, double work, double times) {
  slowdown_course found(times * at(begin));
  if (every_seconds_ <= 0)
    return found;
  for (std::size_t i = 0;; ++i) {
    if (i == ahead_.size())
      draw_next();
    const double until = std::max(0.0, ahead_[i].begin - begin);
    if (found.work_within(until) >= work)
      break;
    if (until > 0)
      found.change_at(until, times * ahead_[i].factor);
    found.change_at(ahead_[i].end - begin, times);
  }
  return found;
}

} // namespace dynamix::simulator
