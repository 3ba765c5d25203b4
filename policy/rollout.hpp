#pragma once

/// Joins decisions with what came of them. A decision is made on window w and comes into force at a later boundary, so its
/// reward is that of the first window that ran under it; a decision that never came into force yields no transition.

#include "messages/types.hpp"
#include "policy/controller.hpp"

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

namespace dynamix::policy {

class rollout_builder {
public:
  /// `horizon` transitions of every worker make a rollout.
  explicit rollout_builder(std::uint32_t horizon);

  /// `made` was decided for the worker under `key`.
  void decided(messages::decision_key key, const choice& made, std::uint64_t policy_version);
  /// A window of the worker ran under `in_force` and earned `reward`.
  void rewarded(std::uint32_t rank, messages::decision_key in_force, double reward);
  /// A rollout once every one of `workers` workers has `horizon` transitions; the trajectories are then taken out. Empty until then.
  std::vector<messages::trajectory> take(std::uint32_t workers);
  /// Forgets a worker that has left.
  void forget(std::uint32_t rank);

private:
  struct pending {
    messages::decision_key key;
    messages::transition transition;
    std::uint64_t policy_version = 0;
  };
  struct history {
    std::deque<pending> waiting; ///< decided, not yet rewarded; bounded
    std::vector<messages::transition> done;
    std::uint64_t policy_version = 0;
  };
  std::uint32_t horizon_;
  std::map<std::uint32_t, history> workers_;
};

} // namespace dynamix::policy
