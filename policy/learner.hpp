#pragma once

/// Learning side of the policies: trajectories in, policy versions out. Includes no Torch.

#include "cluster/cluster_file.hpp"
#include "messages/types.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace dynamix::policy {

class learner {
public:
  virtual ~learner() = default;
  /// One PPO update (or one step of `ppo-simple`) on a rollout. The version rises by one. Trajectories that do not fit
  /// the policy (length of the state, action, a number that is not finite) are left out; when none is left, the version
  /// stays.
  virtual messages::policy_version update(std::span<const messages::trajectory> rollout) = 0;
  /// The parameters as they are, as a version; numbers of the last update are kept.
  virtual messages::policy_version current() const = 0;
  /// Everything needed to go on exactly: parameters, Adam's moments, the generator. A tensor file's bytes.
  virtual std::vector<std::uint8_t> save() const = 0;
};

/// Whether this run's policy has something to learn: not one without parameters, nor in mode `infer`.
inline bool learns(const cluster::cluster_file& file) {
  return cluster::has_parameters(file.arbitrator.policy) && file.arbitrator.mode != cluster::policy_mode::infer;
}

/// `saved` is the result of `save`, or a policy's parameters alone, or empty for fresh ones from the seed; fresh ones
/// equal those of make_controller. Throws std::invalid_argument when they do not fit. Null when nothing is to be
/// learned (`learns`). Of the part that learns, which needs Torch: who only decides gets it from a module
/// (trainer/training_module.hpp).
std::unique_ptr<learner> make_learner(const cluster::cluster_file& file, const std::vector<std::uint8_t>& saved);
using learner_maker =
    std::function<std::unique_ptr<learner>(const cluster::cluster_file&, const std::vector<std::uint8_t>&)>;

} // namespace dynamix::policy
