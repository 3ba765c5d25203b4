#pragma once

/// Trains a learned policy on many simulated clusters at once.
///
/// Environment j runs scenario j mod n, each episode randomised anew. In a round every environment advances until it
/// has given a rollout (ppo.horizon windows per worker); all of them together, in the environments' order, make one
/// update, whose parameters hold for the next round. The result depends on the scenarios, the options and the seed, not
/// on the number of threads.

#include "policy/learner.hpp"
#include "simulator/policy_validation.hpp"
#include "simulator/simulation.hpp"
#include "simulator/training_curve.hpp"
#include "storage/tensor_file.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace dynamix::simulator {

struct policy_training_options {
  std::uint64_t seed = 1;
  std::uint32_t environments = 16; ///< >= 1; rounded up to a multiple of the scenarios, so that all weigh the same
  std::uint32_t jobs = 1;          ///< threads
};

/// In rounds, one update each, that can be saved and gone on with.
class policy_training {
public:
  /// Workers of one environment that an update learns from: every n-th, others the next time. Otherwise a cluster of
  /// 128 would outweigh sixteen of 8.
  static constexpr std::size_t workers_most = 8;
  /// An environment that gave no rollout within so many horizons (its runs are shorter, or fail) sits the round out.
  static constexpr std::uint64_t horizons_most = 4;

  /// The scenarios must agree on policy, actions, scales and the ppo section (see `align`). `make` makes the learner.
  /// `saved`: what `save` gave, to go on from there, or empty. Learner, counters and curve then go on exactly; the
  /// environments begin episodes that were not seen before. Throws std::invalid_argument when it does not fit, or the
  /// policy has nothing to learn.
  policy_training(std::vector<scenario> scenarios, policy_training_options options, const policy::learner_maker& make,
                  const std::vector<std::uint8_t>& saved = {});

  /// One rollout of every environment, one update. Throws std::runtime_error when no environment gave a rollout.
  const training_point& run_round();
  messages::policy_version current() const { return learner_->current(); }
  std::size_t environments() const { return environments_.size(); }
  /// Everything that the constructor needs to go on: a tensor file's bytes.
  std::vector<std::uint8_t> save() const;

  /// Notes what a validation of `current()` said. True if no version before was better.
  bool record(const validation_scores& scores);
  /// The validated point with the best score; null before one.
  const training_point* best() const;
  std::uint64_t updates() const { return updates_; }
  std::uint64_t windows() const { return windows_; }
  std::uint64_t episodes() const { return episodes_; } ///< begun
  const training_curve& curve() const { return curve_; }

private:
  struct environment {
    std::size_t number = 0;
    std::uint64_t episodes = 0; ///< begun
    std::uint64_t rollouts = 0;
    std::optional<simulation> run;
  };
  /// What one environment brings to a round.
  struct harvest {
    std::vector<messages::trajectory> rollout;
    std::uint64_t windows = 0;
    std::uint64_t episodes = 0;
    std::string failure; ///< of the last run that failed
  };
  void begin_episode(environment& place, const messages::policy_version& version) const;
  harvest advance(environment& place, const messages::policy_version& version) const;
  /// Empty, or why there is nothing to go on with.
  std::string restore_course(const storage::tensor_file& file);

  std::vector<scenario> scenarios_;
  policy_training_options options_;
  std::unique_ptr<policy::learner> learner_;
  std::vector<environment> environments_;
  training_curve curve_;
  std::uint64_t updates_ = 0;
  std::uint64_t windows_ = 0;
  std::uint64_t episodes_ = 0;
  std::uint64_t episodes_before_ = 0; ///< of the training that this one goes on from: its seeds are used up
};

/// Gives every scenario the first one's policy, actions, scales, and ppo and reward sections, which one policy for all
/// needs, and takes guard and shadow mode away, which would hide its choices.
void align(std::vector<scenario>& scenarios);

} // namespace dynamix::simulator
