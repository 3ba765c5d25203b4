#pragma once

/// What decides batch sizes. Every policy, learned or not, stands behind `controller`. Includes no Torch.

#include "cluster/cluster_file.hpp"
#include "messages/types.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace dynamix::policy {

class measured_cluster;

/// What a controller sees when a window has closed.
struct observation {
  const messages::shard_report* report = nullptr;
  /// Batch size last decided for each report, in the reports' order (not always in force yet).
  std::vector<std::uint32_t> assigned;
  /// Most samples a step that each report's worker may be given, in the reports' order.
  std::vector<std::uint32_t> highest;
  /// What has been measured up to and including this report.
  const measured_cluster* measured = nullptr;
};
/// Throws std::invalid_argument unless there is one assigned and one highest batch size a report, and something
/// measured.
void check(const observation& observed);

/// What it chose for one worker, and everything needed to explain it and to learn from it.
struct choice {
  std::uint32_t rank = 0;
  std::uint32_t batch = 0;          ///< inside [lowest, highest]
  std::uint32_t proposed = 0;       ///< what a learned policy wanted, where something stepped in; else 0
  std::string intervention;         ///< why the guard stepped in; empty: it did not
  std::int32_t action = -1;         ///< index into the actions; -1: none was taken, so nothing is to be learned
  std::vector<float> state;         ///< normalised; empty for controllers that use none
  std::vector<float> probabilities; ///< of the actions
  float log_probability = 0;
  float value = 0;
  std::string reason; ///< one sentence for a person
};

class controller {
public:
  virtual ~controller() = default;
  virtual std::string name() const = 0;
  /// One choice a report, in the reports' order; also for final ones, which the caller leaves out. Actions that change
  /// a batch size change `assigned`, for that will be in force when the choice is. The same sequence of observations,
  /// parameters and seed gives the same choices. Throws std::invalid_argument when `assigned`
  /// has another length than the reports.
  virtual std::vector<choice> decide(const observation& observed) = 0;
  /// True if it learns from trajectories: a learned policy in mode `train`.
  virtual bool learns() const { return false; }
  /// Takes new parameters for the next decision. Returns an empty string, or why they are refused: too large, damaged
  /// (the checksum), of another policy, network, state or set of actions, not finite, or of a version older than
  /// `version()`; then nothing has changed. Controllers that do not learn refuse.
  virtual std::string adopt(const messages::policy_version& version);
  virtual std::uint64_t version() const { return 0; }
  /// How a guard saw the choices of the last `decide`, as one sentence; empty without a guard.
  virtual std::string guard_view() const { return {}; }
};

/// The controller that the file names: `static` keeps every batch size; `static-best` gives all the same; `lb-bsp`,
/// `omnilearn` and `goodput` compute them from measured times (policy/rivals.hpp); `ppo`, `ppo-add` and `ppo-simple`
/// choose one action a worker, drawn from its probabilities in mode `train` and the most probable one in mode `infer`,
/// in one inference for all workers (policy/policy_controller.hpp), and are guarded (policy/guard.hpp) unless the file
/// says otherwise. In shadow mode nothing is changed. `parameters` (the bytes of a policy_version's or a learner's
/// tensor file) replaces fresh ones where not empty. Throws std::invalid_argument when they do not fit, and for
/// `oracle`.
std::unique_ptr<controller> make_controller(const cluster::cluster_file& file,
                                            const std::vector<std::uint8_t>& parameters);

} // namespace dynamix::policy
