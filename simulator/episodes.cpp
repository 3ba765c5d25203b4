#include "simulator/episodes.hpp"

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
  begin_seconds_ = end_seconds_ + numbers_.exponential(every_seconds_);
  end_seconds_ = begin_seconds_ + numbers_.exponential(mean_seconds_);
  factor_ = lowest_factor * std::pow(highest_factor_ / lowest_factor, numbers_.uniform());
}

double episodes::at(double seconds) {
  if (every_seconds_ <= 0)
    return 1;
  while (seconds >= end_seconds_)
    draw_next();
  return seconds >= begin_seconds_ ? factor_ : 1;
}

} // namespace dynamix::simulator
