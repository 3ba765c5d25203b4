#pragma once

/// Reports, files and rollouts that the policy's tests begin with. Includes no Torch.

#include "cluster/cluster_file.hpp"
#include "messages/early_steps.hpp"
#include "messages/types.hpp"
#include "policy/controller.hpp"
#include "policy/measured_cluster.hpp"
#include "policy/state.hpp"

#include <cmath>
#include <random>
#include <span>
#include <vector>

namespace dynamix::policy::testing {

/// Of a training that is behind its first steps.
inline messages::window_report make_report(std::uint32_t rank, std::uint64_t window, std::uint32_t batch) {
  messages::window_report report{
      .host = "host-" + std::to_string(rank), .rank = rank, .generation = 1, .window = window};
  report.first_step = messages::early_steps + 10 * (window - 1);
  report.batch = batch;
  report.training.steps = 10;
  report.training.samples = 10ULL * batch;
  report.training.accuracy = 0.5;
  report.training.loss = 1;
  report.training.compute_seconds = 0.01 * (rank + 1);
  report.training.iteration_seconds = 0.05;
  return report;
}

inline messages::shard_report make_shard(std::uint32_t workers, std::uint64_t window = 1) {
  messages::shard_report shard{.window = window, .generation = 1, .reports = {}, .expected = workers};
  for (std::uint32_t rank = 0; rank < workers; ++rank)
    shard.reports.push_back(make_report(rank, window, 64 + rank));
  return shard;
}

inline cluster::cluster_file make_file(cluster::policy_kind kind = cluster::policy_kind::ppo_add) {
  cluster::cluster_file file;
  file.seed = 7;
  file.arbitrator.policy = kind;
  file.arbitrator.guard = false;
  return file;
}

/// A controller, and what is measured for it, as a deliberation keeps them.
class measured_controller {
public:
  measured_controller(std::unique_ptr<controller> decider, const cluster::batch& limits, std::uint32_t base_workers = 0)
      : decider_(std::move(decider)), measured_(limits, cluster::learning_rate_rule::adascale, base_workers) {}

  std::vector<choice> decide(const messages::shard_report& shard, std::vector<std::uint32_t> assigned) {
    measured_.measure(shard);
    std::vector<std::uint32_t> highest;
    for (std::size_t i = 0; i < shard.reports.size(); ++i)
      highest.push_back(measured_.highest(i));
    return policy::decide(
        *decider_,
        {.report = &shard, .assigned = std::move(assigned), .highest = std::move(highest), .measured = &measured_});
  }
  std::vector<choice> decide(const messages::shard_report& shard, std::uint32_t assigned = 64) {
    return decide(shard, std::vector<std::uint32_t>(shard.reports.size(), assigned));
  }
  controller* operator->() const { return decider_.get(); }

private:
  std::unique_ptr<controller> decider_;
  measured_cluster measured_;
};

/// What the file names, unguarded unless it says otherwise.
inline measured_controller make_measured(const cluster::cluster_file& file,
                                         const std::vector<std::uint8_t>& parameters = {}) {
  return {make_controller(file, parameters), file.batch};
}

/// Trajectories of random states, actions, values and rewards, as a policy that chooses among `actions` evenly would
/// give.
inline std::vector<messages::trajectory> random_rollout(std::uint32_t workers, std::uint32_t length, std::uint64_t seed,
                                                        std::uint32_t actions = 5) {
  std::mt19937_64 generator(seed);
  std::uniform_real_distribution<float> number(-1, 1);
  std::vector<messages::trajectory> rollout;
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    messages::trajectory trajectory{
        .rank = rank, .policy_version = 0, .transitions = {}, .bootstrap_value = number(generator)};
    for (std::uint32_t i = 0; i < length; ++i) {
      messages::transition step{.state = std::vector<float>(state_size()),
                                .action = static_cast<std::uint32_t>(generator() % actions),
                                .log_probability = -std::log(static_cast<float>(actions)),
                                .value = number(generator),
                                .reward = number(generator)};
      for (auto& entry : step.state)
        entry = number(generator);
      trajectory.transitions.push_back(std::move(step));
    }
    rollout.push_back(std::move(trajectory));
  }
  return rollout;
}

/// A trajectory of these rewards and values, everything else zero.
inline messages::trajectory plain_trajectory(std::span<const float> rewards, std::span<const float> values,
                                             float bootstrap_value, std::uint32_t rank = 0) {
  messages::trajectory trajectory{
      .rank = rank, .policy_version = 0, .transitions = {}, .bootstrap_value = bootstrap_value};
  for (std::size_t i = 0; i < rewards.size(); ++i)
    trajectory.transitions.push_back(
        {.state = std::vector<float>(state_size()), .value = values[i], .reward = rewards[i]});
  return trajectory;
}

} // namespace dynamix::policy::testing
