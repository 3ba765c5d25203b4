#include "simulator/learning.hpp"

#include <algorithm>
#include <cmath>

namespace dynamix::simulator {

double learning::gain(double phi, double batch) const {
  const double scale = batch / initial_batch;
  switch (rule) {
  case cluster::learning_rate_rule::constant:
    return 1;
  case cluster::learning_rate_rule::linear:
    return scale;
  case cluster::learning_rate_rule::square_root:
    return std::sqrt(scale);
  case cluster::learning_rate_rule::adascale:
    break;
  }
  return (phi / initial_batch + 1) / (phi / batch + 1);
}

double learning::rate_factor(double phi, double batch) const {
  const double own = gain(phi, batch);
  return adaptive && rule == cluster::learning_rate_rule::adascale ? std::sqrt(own) : own;
}

double learning::efficiency(double phi, double batch) const {
  const double pollux = (phi + reference_batch) / (phi + batch);
  if (rule == cluster::learning_rate_rule::adascale)
    return pollux;
  const double ideal_gain = (phi / initial_batch + 1) / (phi / batch + 1);
  const double ideal = adaptive ? std::sqrt(ideal_gain) : ideal_gain;
  return pollux * std::min(1.0, rate_factor(phi, batch) / ideal);
}

} // namespace dynamix::simulator
