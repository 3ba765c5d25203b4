#pragma once

/// Teaches workers to go by traces (policy/traces.hpp): each by itself, from what it does and what comes of it, on many
/// simulated clusters, in the order of a curriculum.
///
/// A stage is all scenarios with the same number of workers; stages come in the order of that number, each for an equal
/// share of the updates, in which every other environment goes on with those before. The n-th worker of every cluster
/// of a stage is taught as one, by a double DQN or PPO of its own that shares nothing with the others'. Those who are
/// new in a stage start as copies (PPO's with critic and moments, a double DQN with an empty memory). In a round every
/// environment advances ppo.horizon windows by the networks as they are; then each learner learns from what its own
/// workers lived through, in the environments' order. The result depends on the scenarios, the options and the seed,
/// not on the number of threads.

#include "policy/trace_network.hpp"
#include "policy/trace_ppo.hpp"
#include "simulator/policy_training.hpp"
#include "simulator/random_stream.hpp"
#include "simulator/resumable_training.hpp"
#include "simulator/simulation.hpp"

#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

namespace dynamix::simulator {

struct trace_training_options : policy_training_options {
  std::uint32_t updates = 200; ///< in all; says when a stage ends
  bool masked = false;         ///< the workers do not see the traces: to compare with
  bool ppo = false;            ///< each learns by PPO instead of a DQN
};

class trace_training : public resumable_training {
public:
  /// `saved`: what `save` gave, to go on from there, or empty. The learners go on exactly, with what they remember left
  /// out; the environments begin episodes that were not seen before. Throws std::invalid_argument when it does not fit.
  trace_training(std::vector<scenario> scenarios, trace_training_options options,
                 const std::vector<std::uint8_t>& saved = {});

  const training_point& run_round() override;
  messages::policy_version current() const override;
  std::size_t environments() const override { return environments_.size(); }
  std::vector<std::uint8_t> save() const override;

private:
  using learner = std::variant<policy::trace_learner, policy::trace_ppo_learner>;
  struct environment {
    std::uint64_t episodes = 0; ///< begun
    std::unique_ptr<simulation> run;
    std::vector<std::vector<policy::trace_transition>> lived; ///< by worker
    /// Whether a worker's action is one to learn from: the newest, and the one before.
    std::vector<std::pair<bool, bool>> counts;
  };
  learner new_learner(const policy::trace_network* start, std::uint64_t seed, std::uint64_t first_seed) const;
  std::size_t act(environment& place, std::size_t worker, const policy::trace_view& seen, double exploration,
                  random_stream& numbers) const;
  void learn(std::size_t worker, double rate);
  std::size_t stage_of(std::uint64_t update) const;
  void enter_stage(std::size_t stage);
  double exploration() const;
  /// The stage whose scenarios an environment runs: every other one those of earlier stages, or they would be
  /// unlearned.
  std::size_t rehearsed(std::size_t environment) const;
  void advance(std::size_t number, double exploration, std::uint64_t seed);
  std::string restore(const std::vector<std::uint8_t>& saved);

  trace_training_options options_;
  std::vector<std::vector<scenario>> stages_; ///< by number of workers
  std::size_t stage_ = 0;
  std::vector<learner> learners_;
  std::vector<environment> environments_;
};

} // namespace dynamix::simulator
