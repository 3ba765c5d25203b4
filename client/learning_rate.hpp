#pragma once

#include "client/gradient_noise.hpp"
#include "messages/types.hpp"

#include <cstdint>

namespace dynamix::client {

/// Goes into checkpoints.
struct learning_rate_state {
  double progress = 0; ///< scale-invariant iterations
  debiased_average trace;
  debiased_average gradient_square;
  friend bool operator==(const learning_rate_state&, const learning_rate_state&) = default;
};

/// Whether a global batch may be smaller than the initial one: under the rules whose learning rate is right there,
/// adascale, or near enough, square_root.
constexpr bool goes_below_initial(messages::rate_rule rule) {
  return rule == messages::rate_rule::adascale || rule == messages::rate_rule::square_root;
}

struct learning_rate_step {
  double learning_rate = 0; ///< to apply to this step's gradient
  double gain = 1;          ///< r of AdaScale; for the other rules the factor on the base rate
};

/// The learning rate of each step from its global batch B. `base_rate` belongs to the batch B0, and S = B/B0.
///   constant:    base
///   linear:      base * S
///   square_root: base * sqrt(S)
///   adascale:    base * r, r = (s2 + m2) / (s2/S + m2), s2 = tr/B0 the variance of the gradient at B0 and m2 = |G|^2
///                (Johnson et al., AdaScale SGD, arXiv 2007.05105, algorithm 1); for adaptive optimisers base *
///                sqrt(r).
/// AdaScale's averages decay with 1 - S/1000 as the paper has it, with bias correction. They hold tr of one sample, not
/// s2, so that S may change from step to step, and be below 1 or no whole number. Below 1, r is 1 in the first steps of
/// training (messages::early_steps), and falls from there to the formula's at twice that progress. Progress counts
/// steps of batch B0: r a step for adascale, S a step (that is, samples) for the others.
class learning_rate {
public:
  /// `base_batch` > 0. `adaptive` says that the optimiser is Adam or AdamW.
  learning_rate(messages::rate_rule rule, double base_rate, std::uint64_t base_batch, bool adaptive);

  /// To be called once a step, after the reduction of its gradient. `sample` is what `gradient_noise::observe` gave;
  /// one that is not valid is skipped, and before the first valid one AdaScale's gain is min(1, S), but 1 early in
  /// training. `deals`: batches that were accumulated for the step on every worker, of which the base batch then has as
  /// many.
  learning_rate_step advance(std::uint64_t global_batch, const noise_sample& sample, std::uint32_t deals = 1);

  double progress() const { return state_.progress; }
  learning_rate_state state() const { return state_; }
  void restore(const learning_rate_state& state) { state_ = state; }

private:
  double adascale_gain(double scale, double base_batch, const noise_sample& sample);

  messages::rate_rule rule_;
  double base_rate_;
  double base_batch_;
  bool adaptive_;
  learning_rate_state state_;
};

} // namespace dynamix::client
