#include "policy/ppo.hpp"

#include "policy/actions.hpp"

#include <algorithm>
#include <numeric>

namespace dynamix::policy {

// The core details, in the order of the paper.
//
// 1. Vectorised architecture: a rollout is `horizon` windows of every worker, decided in one inference a window
//    (policy_controller.cpp), and all workers' transitions are rows of the same minibatches. Trajectories stay separate
//    only where time matters, in the advantages.
//
// 2. Orthogonal initialisation of weights and constant initialisation of biases: actor_critic.cpp.
//
// 3. Adam's epsilon of 1e-5: network_learner.cpp.

// 4. Annealing of the learning rate.
double anneal_learning_rate(double initial, std::uint64_t updates_done, std::uint64_t total_updates) {
  if (total_updates == 0)
    return initial;
  const auto done = std::min(updates_done, total_updates);
  return initial * (1 - static_cast<double>(done) / static_cast<double>(total_updates));
}

// 5. Generalised advantage estimation, with bootstrapping where the rollout is cut.
advantage_estimate estimate_advantages(const messages::trajectory& trajectory, double discount, double gae_lambda) {
  const auto& steps = trajectory.transitions;
  advantage_estimate estimate{.advantages = std::vector<float>(steps.size()),
                              .returns = std::vector<float>(steps.size())};
  double advantage = 0;
  double next_value = trajectory.bootstrap_value;
  for (std::size_t i = steps.size(); i-- > 0;) {
    const double surprise = steps[i].reward + discount * next_value - steps[i].value;
    advantage = surprise + discount * gae_lambda * advantage;
    estimate.advantages[i] = static_cast<float>(advantage);
    estimate.returns[i] = static_cast<float>(advantage + steps[i].value);
    next_value = steps[i].value;
  }
  return estimate;
}

// 6. Minibatch updates: each epoch shuffles all rows anew and uses each exactly once.
std::vector<torch::Tensor> deal_minibatches(std::int64_t rows, std::int64_t parts, std::mt19937_64& generator) {
  std::vector<std::int64_t> order(rows);
  std::iota(order.begin(), order.end(), 0);
  for (std::int64_t i = rows - 1; i > 0; --i)
    std::swap(order[i], order[draw_below(i + 1, generator)]);
  return torch::tensor(order).tensor_split(parts);
}

// 7. Normalisation of advantages, in the minibatch. Unlike the paper's, it does not scale up to 1 what differs by less
// than `least_advantage_deviation`. Once the policy does the same whenever it sees the same, be it right or wrong,
// advantages are what the value function is wrong by; scaled up, they outweigh the entropy bonus, and a policy stuck
// with a wrong action stays with it.
constexpr double least_advantage_deviation = 0.1;

torch::Tensor normalise_advantages(const torch::Tensor& advantages) {
  if (advantages.numel() < 2)
    return advantages;
  return (advantages - advantages.mean()) / advantages.std().clamp_min(least_advantage_deviation);
}

prediction predict(const actor_critic& network, const torch::Tensor& states, const torch::Tensor& actions) {
  const auto log_probabilities = network.logits(states).log_softmax(1);
  return {.log_probabilities = log_probabilities.gather(1, actions.unsqueeze(1)).squeeze(1),
          .entropies = -(log_probabilities.exp() * log_probabilities).sum(1),
          .values = network.values(states)};
}

ppo_loss compute_loss(const prediction& now, const target& then, const cluster::ppo& options) {
  ppo_loss loss;
  // 8. Clipped surrogate objective.
  const auto log_ratio = now.log_probabilities - then.log_probabilities;
  const auto ratio = log_ratio.exp();
  const auto clipped_ratio = ratio.clamp(1 - options.clip, 1 + options.clip);
  loss.policy = -torch::min(then.advantages * ratio, then.advantages * clipped_ratio).mean();
  // 9. Clipping of the value loss: a value moves no further than the clip from what it was.
  const auto clipped_values = then.values + (now.values - then.values).clamp(-options.clip, options.clip);
  const auto errors = (now.values - then.returns).square();
  const auto clipped_errors = (clipped_values - then.returns).square();
  loss.value = 0.5 * torch::max(errors, clipped_errors).mean();
  // 10. Overall loss with entropy bonus.
  loss.entropy = now.entropies.mean();
  loss.total = loss.policy - options.entropy_coefficient * loss.entropy + options.value_coefficient * loss.value;
  // 12. Debug variables: the losses above, the unbiased estimate of KL(then || now) and the share of clipped rows.
  loss.approximate_kl = (ratio - 1 - log_ratio).mean();
  loss.clip_fraction = ((ratio - 1).abs() > options.clip).to(torch::kFloat32).mean();
  return loss;
}

// 11. Clipping of the gradient by its norm over all parameters: network_learner.cpp.
//
// 13. Separate networks for policy and value function: actor_critic.cpp.

void ppo_learner::learn(std::span<const messages::trajectory> rollout, const rollout_rows& rows) {
  set_learning_rate(anneal_learning_rate(options_.learning_rate, last_.version - begun_at_, options_.annealing_updates));
  std::vector<float> advantages;
  std::vector<float> returns;
  for (const auto& trajectory : rollout) {
    const auto estimate = estimate_advantages(trajectory, options_.discount, options_.gae_lambda);
    advantages.insert(advantages.end(), estimate.advantages.begin(), estimate.advantages.end());
    returns.insert(returns.end(), estimate.returns.begin(), estimate.returns.end());
  }
  const auto all_advantages = torch::tensor(advantages);
  const auto all_returns = torch::tensor(returns);

  const std::int64_t count = all_returns.size(0);
  // A minibatch of one row has no advantage to normalise.
  const auto parts = std::min<std::int64_t>(options_.minibatches, std::max<std::int64_t>(count / 2, 1));
  auto numbers = torch::zeros({5}, torch::kFloat64);
  for (std::uint32_t epoch = 0; epoch < options_.epochs; ++epoch) {
    for (const auto& indices : deal_minibatches(count, parts, generator_)) {
      const auto pick = [&indices](const torch::Tensor& column) { return column.index_select(0, indices); };
      const auto now = predict(network_, pick(rows.states), pick(rows.actions));
      const auto loss = compute_loss(now,
                                     {.log_probabilities = pick(rows.log_probabilities),
                                      .values = pick(rows.values),
                                      .advantages = normalise_advantages(pick(all_advantages)),
                                      .returns = pick(all_returns)},
                                     options_);
      descend(loss.total);
      numbers +=
          torch::stack({loss.policy, loss.value, loss.entropy, loss.approximate_kl, loss.clip_fraction}).detach();
    }
  }
  numbers = (numbers / static_cast<double>(options_.epochs * parts)).nan_to_num();
  last_.policy_loss = numbers[0].item<double>();
  last_.value_loss = numbers[1].item<double>();
  last_.entropy = numbers[2].item<double>();
  last_.approximate_kl = numbers[3].item<double>();
  last_.clip_fraction = numbers[4].item<double>();
}

} // namespace dynamix::policy
