#include "policy/trace_ppo.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace dynamix::policy {
namespace {

constexpr float least_deviation = 1e-3F; ///< of advantages that are scaled to 1

/// Logarithms of the actions' probabilities.
trace_network::values log_probabilities(const trace_network& network, const trace_view& seen) {
  auto all = network.evaluate(seen);
  const float most = std::ranges::max(all);
  float sum = 0;
  for (const auto each : all)
    sum += std::exp(each - most);
  for (auto& each : all)
    each -= most + std::log(sum);
  return all;
}

} // namespace

trace_ppo_learner::trace_ppo_learner(const trace_network& start, std::uint64_t seed, trace_ppo_learning options)
    : options_(options), network_(start), numbers_(seed) {
  critic_ = trace_network(numbers_);
}

trace_network trace_ppo_learner::fresh(storage::splitmix64& numbers, const trace_ppo_learning& options) {
  trace_network made(numbers);
  const double others = (1 - options.prefers_hand) / static_cast<double>(trace_network::actions - 1);
  made.prefer(hand_action, static_cast<float>(std::log(options.prefers_hand / others)));
  return made;
}

std::size_t trace_ppo_learner::draw(const trace_view& seen, double place) const {
  const auto all = log_probabilities(network_, seen);
  for (std::size_t action = 0; action + 1 < all.size(); ++action) {
    place -= std::exp(all[action]);
    if (place < 0)
      return action;
  }
  return all.size() - 1;
}

std::vector<trace_ppo_learner::lesson> trace_ppo_learner::judge(std::span<const trace_transition> lived) const {
  std::vector<lesson> lessons;
  float mean = 0;
  float square = 0;
  for (const auto& one : lived) {
    const float target = one.reward + static_cast<float>(options_.discount) * critic_.evaluate(one.next)[0];
    const float advantage = target - critic_.evaluate(one.seen)[0];
    lessons.push_back({&one, log_probabilities(network_, one.seen)[one.action], advantage, target});
    mean += advantage / static_cast<float>(lived.size());
    square += advantage * advantage / static_cast<float>(lived.size());
  }
  const float deviation = std::max(least_deviation, std::sqrt(std::max(0.0F, square - mean * mean)));
  for (auto& each : lessons)
    each.advantage = (each.advantage - mean) / deviation;
  return lessons;
}

/// One update of both networks.
void trace_ppo_learner::descend(std::span<const lesson> lessons) {
  trace_network::parameters actor{};
  trace_network::parameters critic{};
  const auto share = 1 / static_cast<float>(lessons.size());
  const auto bound = static_cast<float>(options_.clip);
  const auto worth_of_entropy = static_cast<float>(options_.entropy_coefficient);
  for (const auto& each : lessons) {
    const auto& one = *each.of;
    const auto logs = log_probabilities(network_, one.seen);
    const float ratio = std::exp(logs[one.action] - each.log_probability);
    const bool clipped = each.advantage > 0 ? ratio > 1 + bound : ratio < 1 - bound;
    float entropy = 0;
    for (const auto log : logs)
      entropy -= std::exp(log) * log;
    trace_network::values slopes{};
    for (std::size_t action = 0; action < logs.size(); ++action) {
      const float probability = std::exp(logs[action]);
      slopes[action] = share * worth_of_entropy * probability * (logs[action] + entropy);
      if (!clipped)
        slopes[action] -= share * each.advantage * ratio * ((action == one.action ? 1.0F : 0.0F) - probability);
    }
    network_.differentiate(one.seen, slopes, actor);
    const float error = critic_.evaluate(one.seen)[0] - each.target;
    critic_.differentiate(one.seen, {share * std::clamp(error, -1.0F, 1.0F)}, critic);
  }
  actor_adam_.descend(network_.weights(), actor, options_.learning_rate);
  critic_adam_.descend(critic_.weights(), critic, options_.learning_rate);
}

void trace_ppo_learner::learn_from(std::span<const trace_transition> lived) {
  auto lessons = judge(lived);
  for (std::uint32_t pass = 0; pass < options_.passes && lessons.size() >= options_.minibatch; ++pass) {
    for (std::size_t i = lessons.size() - 1; i > 0; --i)
      std::swap(lessons[i], lessons[numbers_.below(static_cast<std::uint32_t>(i + 1))]);
    for (std::size_t from = 0; from + options_.minibatch <= lessons.size(); from += options_.minibatch)
      descend(std::span(lessons).subspan(from, options_.minibatch));
  }
}

std::vector<double> trace_ppo_learner::save() const {
  std::vector<double> numbers;
  for (const auto* each : {&network_.weights(), &critic_.weights(), &actor_adam_.mean, &critic_adam_.mean,
                           &actor_adam_.square, &critic_adam_.square})
    numbers.insert(numbers.end(), each->begin(), each->end());
  for (const auto& each : {&actor_adam_, &critic_adam_})
    numbers.push_back(static_cast<double>(each->updates));
  numbers.push_back(options_.learning_rate);
  return numbers;
}

void trace_ppo_learner::restore(std::span<const double> saved) {
  for (auto* each : {&network_.weights(), &critic_.weights(), &actor_adam_.mean, &critic_adam_.mean,
                     &actor_adam_.square, &critic_adam_.square}) {
    std::ranges::transform(saved.first(each->size()), each->begin(),
                           [](double one) { return static_cast<float>(one); });
    saved = saved.subspan(each->size());
  }
  actor_adam_.updates = static_cast<std::uint64_t>(saved[0]);
  critic_adam_.updates = static_cast<std::uint64_t>(saved[1]);
  options_.learning_rate = saved[2];
}

} // namespace dynamix::policy
