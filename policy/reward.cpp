#include "policy/reward.hpp"

#include "policy/bounded.hpp"

#include <algorithm>
#include <cmath>

namespace dynamix::policy {

namespace {

/// The accuracy's terms lie between 0 and 1 + alpha, the others have no bound of their own: without one, a single
/// stalled step or a gradient near 0 would outweigh all that the policy has learned.
constexpr double iteration_seconds_counted_most = 10;
constexpr double noise_counted_most = 1000;

} // namespace

reward_terms compute_reward(const messages::window_report& report, double previous_accuracy, double progress,
                            const cluster::reward& weights, cluster::reward_kind kind, bool adaptive_optimizer) {
  const auto& training = report.training;
  reward_terms terms;
  terms.accuracy = bounded(training.accuracy, 0, 1);
  if (previous_accuracy >= 0)
    terms.gain = weights.alpha * bounded(terms.accuracy - previous_accuracy, 0, 1);
  terms.time = weights.beta * bounded(training.iteration_seconds, 0, iteration_seconds_counted_most);
  terms.batch = weights.delta * (std::log2(std::max<std::uint32_t>(report.batch, 1)) - 5);
  if (adaptive_optimizer && training.gradient_valid)
    terms.noise = weights.eta * bounded(training.sigma2_norm + training.sigma_norm, 0, noise_counted_most);
  terms.progress = progress;
  terms.total = kind == cluster::reward_kind::progress
                    ? progress
                    : terms.accuracy + terms.gain - terms.time - terms.batch - terms.noise;
  return terms;
}

} // namespace dynamix::policy
