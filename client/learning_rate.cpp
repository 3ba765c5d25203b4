#include "client/learning_rate.hpp"

#include "messages/early_steps.hpp"

#include <algorithm>
#include <cmath>

namespace dynamix::client {

learning_rate::learning_rate(messages::rate_rule rule, double base_rate, std::uint64_t base_batch, bool adaptive)
    : rule_(rule), base_rate_(base_rate), base_batch_(static_cast<double>(base_batch)), adaptive_(adaptive) {}

learning_rate_step learning_rate::advance(std::uint64_t global_batch, const noise_sample& sample, std::uint32_t deals) {
  const double base_batch = base_batch_ * deals;
  const double scale = static_cast<double>(global_batch) / base_batch;
  switch (rule_) {
  case messages::rate_rule::unspecified:
  case messages::rate_rule::constant:
    state_.progress += scale;
    return {base_rate_, 1};
  case messages::rate_rule::linear:
    state_.progress += scale;
    return {base_rate_ * scale, scale};
  case messages::rate_rule::square_root:
    state_.progress += scale;
    return {base_rate_ * std::sqrt(scale), std::sqrt(scale)};
  case messages::rate_rule::adascale:
    break;
  }
  const double by_noise = adascale_gain(scale, base_batch, sample);
  const double counted = scale < 1 ? std::clamp(state_.progress / messages::early_steps - 1, 0.0, 1.0) : 1;
  const double gain = 1 + counted * (by_noise - 1);
  state_.progress += gain;
  return {base_rate_ * (adaptive_ ? std::sqrt(gain) : gain), gain};
}

double learning_rate::adascale_gain(double scale, double base_batch, const noise_sample& sample) {
  if (sample.valid) {
    const double decay = std::max(0.0, 1 - scale / 1000);
    state_.trace.add(sample.trace, decay);
    state_.gradient_square.add(sample.gradient_square, decay);
  }
  // Clamped after averaging: clamping each step's estimate, which may well be negative, would bias the means upwards.
  const double variance = std::max(0.0, state_.trace.value() / base_batch);
  const double square = std::max(0.0, state_.gradient_square.value());
  const double denominator = variance / scale + square;
  const double lowest = std::min(1.0, scale);
  if (!(denominator > 0))
    return lowest;
  return std::clamp((variance + square) / denominator, lowest, std::max(1.0, scale));
}

} // namespace dynamix::client
