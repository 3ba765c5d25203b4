#pragma once

/// Joins decisions with what came of them. A decision is made on window w and comes into force at a later boundary, so
/// its reward is that of the first window that ran under it. Further windows under the same decision, and a decision
/// that never came into force, yield no transition.

#include "messages/types.hpp"
#include "policy/controller.hpp"

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

namespace dynamix::policy {

class rollout_builder {
public:
  /// Decisions of one worker that wait for their reward; beyond that the oldest is dropped.
  static constexpr std::size_t max_waiting = 64;

  /// `horizon` transitions of every worker make a rollout, [1, messages::max_trajectory_length].
  explicit rollout_builder(std::uint32_t horizon);

  /// `made` was decided for the worker under `key`. Ignored when it is not newer than the worker's last decision, and
  /// for controllers that use no state or no actions.
  void decided(messages::decision_key key, const choice& made, std::uint64_t policy_version);
  /// A window of the worker ran under `in_force` and earned `reward`. Decisions older than `in_force` are dropped.
  void rewarded(std::uint32_t rank, messages::decision_key in_force, double reward);
  /// A rollout once `workers` workers have `horizon` transitions each, else empty: every transition there is, by rank
  /// and time, taken out. Where the policy version changed within a worker's transitions, they are split into one
  /// trajectory a version. The last bootstrap value is that of the decision that follows the last transition (the
  /// oldest that waits), or 0 without one: take after deciding.
  std::vector<messages::trajectory> take(std::uint32_t workers);
  /// Forgets a worker that has left.
  void forget(std::uint32_t rank);

private:
  struct decided_transition {
    messages::decision_key key;
    messages::transition transition;
    std::uint64_t policy_version = 0;
  };
  struct history {
    std::deque<decided_transition> waiting; ///< not yet rewarded, oldest first
    std::deque<decided_transition> done;    ///< at most max_trajectory_length; beyond that the oldest is dropped
    messages::decision_key newest;
  };
  static void append_trajectories(std::uint32_t rank, const history& worker,
                                  std::vector<messages::trajectory>& rollout);

  std::uint32_t horizon_;
  std::map<std::uint32_t, history> workers_;
};

} // namespace dynamix::policy
