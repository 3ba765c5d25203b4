#include "policy/reward.hpp"

#include <algorithm>
#include <cmath>

namespace dynamix::policy {

reward_terms compute_reward(const messages::window_report& report, double previous_accuracy, double progress,
                            const cluster::reward& weights, cluster::reward_kind kind, bool adaptive_optimizer) {
  const auto& training = report.training;
  reward_terms terms;
  terms.accuracy = training.accuracy;
  if (previous_accuracy >= 0)
    terms.gain = weights.alpha * std::max(0.0, training.accuracy - previous_accuracy);
  terms.time = weights.beta * training.iteration_seconds;
  terms.batch = weights.delta * (std::log2(std::max<std::uint32_t>(report.batch, 1)) - 5);
  if (adaptive_optimizer && training.gradient_valid)
    terms.noise = weights.eta * (training.sigma2_norm + training.sigma_norm);
  terms.progress = progress;
  terms.total = kind == cluster::reward_kind::progress
                    ? progress
                    : terms.accuracy + terms.gain - terms.time - terms.batch - terms.noise;
  return terms;
}

} // namespace dynamix::policy
