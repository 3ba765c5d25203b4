#include "client/window_sums.hpp"

#include "messages/loss.hpp"

#include <cmath>

namespace dynamix::client {

double finite_or_huge(double value) {
  return std::isfinite(value) ? value : 1e30;
}

void window_sums::restart_times() {
  timed_steps = 0;
  iteration_seconds = compute_seconds = exchange_seconds = data_seconds = 0;
}

messages::training_statistics window_sums::statistics(const noise_estimate& noise,
                                                      const learning_rate_step& rate) const {
  messages::training_statistics result;
  result.steps = steps;
  result.samples = samples;
  result.untimed_steps = untimed_steps;
  if (correct_samples > 0)
    result.accuracy = correct / static_cast<double>(correct_samples);
  if (loss_samples > 0)
    result.loss = messages::sent_loss(finite_or_huge(loss / static_cast<double>(loss_samples)));
  if (norm_steps > 0)
    result.gradient_norm = finite_or_huge(gradient_norm / norm_steps);
  if (timed_steps > 0) {
    result.iteration_seconds = iteration_seconds / timed_steps;
    result.compute_seconds = compute_seconds / timed_steps;
    result.exchange_seconds = exchange_seconds / timed_steps;
    result.data_seconds = data_seconds / timed_steps;
  }
  result.gradient_valid = noise.valid && noise.own_valid && std::isfinite(noise.sigma2_norm);
  if (result.gradient_valid) {
    result.sigma_norm = noise.sigma_norm;
    result.sigma2_norm = noise.sigma2_norm;
    result.noise_scale = noise.noise_scale;
    result.noise_error = noise.noise_error;
  }
  result.learning_rate = rate.learning_rate;
  result.gain = rate.gain;
  return result;
}

} // namespace dynamix::client
