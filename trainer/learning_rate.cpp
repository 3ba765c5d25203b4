#include "trainer/learning_rate.hpp"

#include <algorithm>
#include <cmath>

namespace dynamix::trainer {

learning_rate::learning_rate(cluster::learning_rate_rule rule, double base_rate, std::uint64_t base_batch,
                             bool adaptive)
    : rule_(rule), base_rate_(base_rate), base_batch_(static_cast<double>(base_batch)), adaptive_(adaptive) {}

learning_rate_step learning_rate::advance(std::uint64_t global_batch, const noise_sample& sample) {
  const double scale = static_cast<double>(global_batch) / base_batch_;
  switch (rule_) {
  case cluster::learning_rate_rule::constant:
    state_.progress += scale;
    return {base_rate_, 1};
  case cluster::learning_rate_rule::linear:
    state_.progress += scale;
    return {base_rate_ * scale, scale};
  case cluster::learning_rate_rule::square_root:
    state_.progress += scale;
    return {base_rate_ * std::sqrt(scale), std::sqrt(scale)};
  case cluster::learning_rate_rule::adascale:
    break;
  }
  const double gain = adascale_gain(scale, sample);
  state_.progress += gain;
  return {base_rate_ * (adaptive_ ? std::sqrt(gain) : gain), gain};
}

double learning_rate::adascale_gain(double scale, const noise_sample& sample) {
  if (sample.valid) {
    const double decay = std::max(0.0, 1 - scale / 1000);
    state_.trace.add(sample.trace, decay);
    state_.gradient_square.add(sample.gradient_square, decay);
  }
  // Clamped after averaging: clamping each step's estimate, which may well be negative, would bias the means upwards.
  const double variance = std::max(0.0, state_.trace.value() / base_batch_);
  const double square = std::max(0.0, state_.gradient_square.value());
  const double denominator = variance / scale + square;
  const double lowest = std::min(1.0, scale);
  if (!(denominator > 0))
    return lowest;
  return std::clamp((variance + square) / denominator, lowest, std::max(1.0, scale));
}

} // namespace dynamix::trainer
