#pragma once

#include "simulator/random_stream.hpp"

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

private:
  void draw_next();

  double every_seconds_;
  double mean_seconds_;
  double highest_factor_;
  random_stream numbers_;
  // The episode that is in force or comes next.
  double begin_seconds_ = 0;
  double end_seconds_ = 0;
  double factor_ = 1;
};

} // namespace dynamix::simulator
