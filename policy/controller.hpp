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
  /// The reports are one shard's: what is drawn depends on window and rank alone, however the workers are spread.
  bool sharded = false;
};
/// Throws std::invalid_argument unless there is one assigned and one highest batch size per report, and something
/// measured.
void check(const observation& observed);

/// What it chose for one worker, and everything needed to explain it and to learn from it.
struct choice {
  std::uint32_t rank = 0;
  std::uint32_t batch = 0;          ///< inside [lowest, highest]
  std::uint32_t proposed = 0;       ///< what a learned policy wanted, where something stepped in; else 0
  std::string intervention;         ///< why the guard stepped in; empty: it did not
  std::int32_t action = -1;         ///< index into the actions; -1: none was taken, so nothing is to be learned
  std::int32_t vote = -1;           ///< the action that a learned policy chose, taken or not; -1: none
  std::vector<float> state;         ///< normalised; empty for controllers that use none
  std::vector<float> probabilities; ///< of the actions
  float log_probability = 0;
  float value = 0;
  std::string reason; ///< one sentence for a person
};

/// What one window of all workers comes to. In a tree only the guidance travels from the root to the shards; the rest
/// is there where one arbitrator is both.
struct ruling : messages::guidance {
  std::vector<choice> choices;           ///< of a policy that chooses for all workers at once, one a report
  std::vector<std::uint32_t> overridden; ///< what the policy wanted where the guard steps in, one a report
};

/// Decides in four parts. In a tree of arbitrators the root surveys and rules over all workers, and each shard proposes
/// and settles for its own, by the newest ruling that it has, without waiting. One arbitrator for all does the four in
/// a row on the same window (`decide`). The same sequence of observations, parameters and seed gives the same choices.
class controller {
public:
  virtual ~controller() = default;
  virtual std::string name() const = 0;
  /// True if it learns from trajectories: a learned policy in mode `train`.
  virtual bool learns() const { return false; }
  /// Takes new parameters for the next decision. Returns an empty string, or why they are refused: too large, damaged
  /// (the checksum), of another policy, network, state or set of actions, not finite, or of a version older than
  /// `version()`; then nothing has changed. Controllers that do not learn refuse.
  virtual std::string adopt(const messages::policy_version& version);
  virtual std::uint64_t version() const { return 0; }
  /// How a guard saw the choices that it last ruled on, as one sentence; empty without a guard.
  virtual std::string guard_view() const { return {}; }

  /// Root: what all workers' measurements come to, where the policy goes by that; s_global is in `result` already.
  virtual void survey(const observation& all, ruling& result) const;
  /// Shard: one choice a report, in the reports' order; also for final ones, which the caller leaves out. Actions that
  /// change a batch size change `assigned`, for that will be in force when the choice is.
  virtual std::vector<choice> propose(const observation& own, const ruling& known) = 0;
  /// Shard: why the policy was not trained for what it sees; empty: it was, or that is not known.
  virtual std::string untrained(const observation& own, const std::vector<choice>& choices) const;
  /// Root: what follows from what all want, one proposal a report. Of a shard's proposal it has rank, vote and batch;
  /// `untrained` is what a shard has found. By itself what is proposed.
  virtual void rule(const observation& all, const std::vector<choice>& proposals, const std::string& untrained,
                    ruling& result);
  /// Shard: puts what was ruled into its choices. By itself they stand.
  virtual void settle(const observation& own, const ruling& known, std::vector<choice>& choices);
};

/// Chooses for all workers at once, at the root; shards follow its last word.
class joint_controller : public controller {
public:
  /// One choice a report, in the reports' order.
  virtual std::vector<choice> choose_all(const observation& all) = 0;

  std::vector<choice> propose(const observation& own, const ruling& known) final;
  void rule(const observation& all, const std::vector<choice>& proposals, const std::string& untrained,
            ruling& result) final;
  void settle(const observation& own, const ruling& known, std::vector<choice>& choices) final;
};

/// All four parts on the same window: one choice a report, in the reports' order. Throws std::invalid_argument as
/// `check` does.
std::vector<choice> decide(controller& decider, const observation& all);

/// The worker's part of the guidance; zeros where it has none.
messages::worker_guidance guidance_for(const messages::guidance& known, std::uint32_t rank);
/// Guidance with one entry per report, the batch sizes ruled.
void rule_batches(const observation& all, const std::vector<std::uint32_t>& batches, messages::guidance& result);

/// The controller that the file names: `static` keeps every batch size; `static-best` gives all the same; `lb-bsp`,
/// `omnilearn` and `goodput` compute them from measured times (policy/rivals.hpp); `ppo`, `ppo-add` and `ppo-simple`
/// choose one action per worker, drawn from its probabilities in mode `train` and the most probable one in mode
/// `infer`, in one inference for all workers (policy/policy_controller.hpp), and are guarded (policy/guard.hpp) unless
/// the file says otherwise. Under `stigmergic` the workers choose (client/balancer.hpp), and it keeps what they report.
/// In shadow mode nothing is changed. `parameters` (the bytes of a policy_version's or a learner's tensor file)
/// replaces fresh ones where not empty. Throws std::invalid_argument when they do not fit, and for `oracle`.
std::unique_ptr<controller> make_controller(const cluster::cluster_file& file,
                                            const std::vector<std::uint8_t>& parameters);

} // namespace dynamix::policy
