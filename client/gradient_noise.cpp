#include "client/gradient_noise.hpp"

#include <algorithm>
#include <cmath>

namespace dynamix::client {
namespace {

constexpr double share_max = 0.99; ///< of a step: phi is bounded near 100 critical B
constexpr double error_max = 3;    ///< of ln(phi): nothing is known

} // namespace

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
  add_share(sample, observation);
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

void gradient_noise::add_share(const noise_sample& sample, const gradient_observation& observation) {
  const auto batch = static_cast<double>(observation.global_batch);
  auto& share = state_.share;
  if (state_.batch > 0 && state_.batch != batch) {
    const double noise = share.value() * state_.batch;
    const double rest = (1 - share.value()) * batch;
    share.sum = share.weight * (noise / (noise + rest));
  }
  state_.batch = batch;
  if (!(observation.global_square > 0))
    return; // no gradient has no share of noise
  const double steps = std::clamp(static_cast<double>(state_.steps) / 2, options_.horizon_least, options_.horizon_most);
  const double newest = std::clamp(sample.trace / (batch * observation.global_square), 0.0, share_max);
  const double decay = 1 - 1 / steps;
  if (weights_ > 0)
    spread_.add((newest - share.value()) * (newest - share.value()), decay);
  weights_ = decay * weights_ + 1 - decay;
  squared_weights_ = decay * decay * squared_weights_ + (1 - decay) * (1 - decay);
  share.add(newest, decay);
}

/// d ln(S/(1 - S)) = dS/(S (1 - S)).
double gradient_noise::noise_error(double share) const {
  if (spread_.weight == 0)
    return 0;
  const double error = std::sqrt(spread_.value() * squared_weights_) / weights_;
  const double slope = share * (1 - share);
  return slope > 0 ? std::min(error_max, error / slope) : error_max;
}

noise_estimate gradient_noise::estimate() const {
  noise_estimate estimate;
  const double floor = options_.floor * state_.global_square.value();
  estimate.trace = std::max(0.0, state_.trace.value());
  estimate.gradient_square = std::max(floor, state_.gradient_square.value());
  if (!(estimate.gradient_square > 0))
    return estimate;
  estimate.valid = state_.steps >= options_.warm_up_steps;
  const double share = std::min(state_.share.value(), share_max); // a state may come from a file
  estimate.noise_scale = options_.critical * state_.batch * share / (1 - share);
  estimate.noise_error = noise_error(share);
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
  if (state_.batch == 0)
    state_.steps = 0; // saved before the share was averaged
  own_weighted_square_ = {};
  own_batch_mean_ = {};
  own_steps_ = 0;
  own_batch_ = 0;
  spread_ = {};
  weights_ = squared_weights_ = 0;
}

} // namespace dynamix::client
