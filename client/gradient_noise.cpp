#include "client/gradient_noise.hpp"

#include <algorithm>
#include <cmath>

namespace dynamix::client {

noise_sample estimate_noise(const gradient_observation& observation) {
  if (observation.active_workers < 2 || observation.global_batch == 0)
    return {};
  const auto batch = static_cast<double>(observation.global_batch);
  noise_sample sample;
  sample.trace =
      (observation.weighted_square_sum - batch * observation.global_square) / (observation.active_workers - 1.0);
  sample.gradient_square = observation.global_square - sample.trace / batch;
  sample.valid = std::isfinite(sample.trace) && std::isfinite(sample.gradient_square);
  return sample;
}

gradient_noise::gradient_noise(noise_options options) : options_(options) {}

noise_sample gradient_noise::observe(const gradient_observation& observation) {
  const auto sample = estimate_noise(observation);
  if (!sample.valid)
    return sample;
  ++state_.steps;
  state_.trace.add(sample.trace, options_.decay);
  state_.gradient_square.add(sample.gradient_square, options_.decay);
  state_.global_square.add(observation.global_square, options_.decay);
  if (observation.own_batch > 0 && std::isfinite(observation.own_square)) {
    ++own_steps_;
    own_batch_ = observation.own_batch;
    own_weighted_square_.add(own_batch_ * observation.own_square, options_.decay);
    own_batch_mean_.add(own_batch_, options_.decay);
  }
  return sample;
}

noise_estimate gradient_noise::estimate() const {
  noise_estimate estimate;
  const double floor = options_.floor * state_.global_square.value();
  estimate.trace = std::max(0.0, state_.trace.value());
  estimate.gradient_square = std::max(floor, state_.gradient_square.value());
  if (!(estimate.gradient_square > 0))
    return estimate;
  estimate.valid = state_.steps >= options_.warm_up_steps;
  estimate.noise_scale = estimate.trace / estimate.gradient_square;
  if (own_steps_ == 0)
    return estimate;
  const double own_trace = own_weighted_square_.value() - own_batch_mean_.value() * estimate.gradient_square;
  estimate.own_valid = estimate.valid && own_steps_ >= options_.warm_up_steps;
  estimate.sigma2_norm = std::max(0.0, own_trace) / (own_batch_ * estimate.gradient_square);
  estimate.sigma_norm = std::sqrt(estimate.sigma2_norm);
  return estimate;
}

void gradient_noise::restore(const noise_state& state) {
  state_ = state;
  own_weighted_square_ = {};
  own_batch_mean_ = {};
  own_steps_ = 0;
  own_batch_ = 0;
}

} // namespace dynamix::client
