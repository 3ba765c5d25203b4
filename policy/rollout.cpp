#include "policy/rollout.hpp"

#include <algorithm>

namespace dynamix::policy {

rollout_builder::rollout_builder(std::uint32_t horizon)
    : horizon_(std::clamp<std::uint32_t>(horizon, 1, messages::max_trajectory_length)) {}

void rollout_builder::decided(messages::decision_key key, const choice& made, std::uint64_t policy_version) {
  if (made.action < 0 || made.state.empty())
    return;
  auto& worker = workers_[made.rank];
  if (key <= worker.newest)
    return;
  worker.newest = key;
  worker.waiting.push_back({.key = key,
                            .transition = {.state = made.state,
                                           .action = static_cast<std::uint32_t>(made.action),
                                           .log_probability = made.log_probability,
                                           .value = made.value},
                            .policy_version = policy_version});
  if (worker.waiting.size() > max_waiting)
    worker.waiting.pop_front();
}

void rollout_builder::rewarded(std::uint32_t rank, messages::decision_key in_force, double reward) {
  const auto found = workers_.find(rank);
  if (found == workers_.end())
    return;
  auto& [waiting, done, newest] = found->second;
  while (!waiting.empty() && waiting.front().key < in_force)
    waiting.pop_front();
  if (waiting.empty() || waiting.front().key != in_force)
    return; // rewarded before, or none of ours
  done.push_back(std::move(waiting.front()));
  waiting.pop_front();
  done.back().transition.reward = static_cast<float>(reward);
  if (done.size() > messages::max_trajectory_length)
    done.pop_front();
}

void rollout_builder::append_trajectories(std::uint32_t rank, const history& worker,
                                          std::vector<messages::trajectory>& rollout) {
  const std::size_t first = rollout.size();
  for (const auto& step : worker.done) {
    if (rollout.size() == first || rollout.back().policy_version != step.policy_version) {
      if (rollout.size() > first)
        rollout.back().bootstrap_value = step.transition.value;
      rollout.push_back({.rank = rank, .policy_version = step.policy_version, .transitions = {}});
    }
    rollout.back().transitions.push_back(step.transition);
  }
  if (rollout.size() > first && !worker.waiting.empty())
    rollout.back().bootstrap_value = worker.waiting.front().transition.value;
}

std::vector<messages::trajectory> rollout_builder::take(std::uint32_t workers) {
  const auto complete =
      std::ranges::count_if(workers_, [this](const auto& entry) { return entry.second.done.size() >= horizon_; });
  if (complete == 0 || static_cast<std::size_t>(complete) < workers)
    return {};
  std::vector<messages::trajectory> rollout;
  for (auto& [rank, worker] : workers_) {
    append_trajectories(rank, worker, rollout);
    worker.done.clear();
  }
  return rollout;
}

void rollout_builder::forget(std::uint32_t rank) {
  workers_.erase(rank);
}

} // namespace dynamix::policy
