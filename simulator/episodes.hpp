#pragma once

#include "simulator/random_stream.hpp"
#include "simulator/slowdown_course.hpp"

#include <deque>

namespace dynamix::simulator {

/// The slow-downs of one host, or the congestions of its link: gaps and durations are exponential, factors log-uniform
/// in [1.25, highest]. They are drawn in the order of virtual time from a stream of their own, so they are the same
/// whatever a policy decides.
class episodes {
public:
  /// `every_seconds`: mean time from one episode's end to the next one's start; 0: there are none.
  episodes(double every_seconds, double mean_seconds, double highest_factor, random_stream numbers);

  /// The factor in force, 1 between episodes. Times must not fall from call to call.
  double at(double seconds);
  /// How a host that is `times` as slow without them gets on from `begin` on, until so many seconds of work are done.
  /// `begin` must not be before a time that was asked for.
  slowdown_course course(double begin, double work, double times = 1);

private:
  struct episode {
    double begin = 0;
    double end = 0;
    double factor = 1;
  };
  void draw_next();

  double every_seconds_;
  double mean_seconds_;
  double highest_factor_;
  random_stream numbers_;
  std::deque<episode> ahead_; ///< from the one in force, or else the next, as far as was looked ahead
};

} // namespace dynamix::simulator
