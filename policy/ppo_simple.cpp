#include "policy/ppo_simple.hpp"

namespace dynamix::policy {

std::vector<float> cumulative_rewards(std::span<const messages::trajectory> rollout, double discount) {
  std::vector<float> backwards;
  double cumulated = 0;
  for (std::size_t i = rollout.size(); i-- > 0;) {
    if (i + 1 < rollout.size() && rollout[i + 1].rank != rollout[i].rank)
      cumulated = 0;
    const auto& steps = rollout[i].transitions;
    for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
      cumulated = step->reward + discount * cumulated;
      backwards.push_back(static_cast<float>(cumulated));
    }
  }
  return {backwards.rbegin(), backwards.rend()};
}

void ppo_simple_learner::learn(std::span<const messages::trajectory> rollout, const rollout_rows& rows) {
  const auto rewards = torch::tensor(cumulative_rewards(rollout, options_.discount));
  const auto all_log_probabilities = network_.logits(rows.states).log_softmax(1);
  const auto log_probabilities = all_log_probabilities.gather(1, rows.actions.unsqueeze(1)).squeeze(1);
  const auto log_ratio = log_probabilities - rows.log_probabilities;
  const auto ratio = log_ratio.exp();
  const auto loss = -(ratio * rewards).mean();
  descend(loss);

  const auto numbers = torch::stack({loss, -(all_log_probabilities.exp() * all_log_probabilities).sum(1).mean(),
                                     (ratio - 1 - log_ratio).mean()})
                           .detach()
                           .to(torch::kFloat64)
                           .nan_to_num();
  last_.policy_loss = numbers[0].item<double>();
  last_.entropy = numbers[1].item<double>();
  last_.approximate_kl = numbers[2].item<double>();
}

} // namespace dynamix::policy
