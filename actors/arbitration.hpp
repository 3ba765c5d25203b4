#pragma once

/// Decides a shard's windows. Knows no CAF: the arbitrator actor feeds it reports and sends what it returns.

#include "actors/ledger.hpp"
#include "cluster/cluster_file.hpp"
#include "messages/types.hpp"
#include "policy/accuracy_history.hpp"
#include "policy/controller.hpp"
#include "policy/rollout.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace dynamix::actors {

struct verdict {
  std::vector<messages::decision> decisions; ///< one a worker; none on the last window
  ledger_window window;
  std::vector<messages::trajectory> rollout; ///< complete, for the learner; mostly empty
};

class arbitration {
public:
  arbitration(const cluster::cluster_file& file, std::unique_ptr<policy::controller> controller, std::uint64_t term);

  /// Judges one window: rewards what was in force, decides what comes next.
  verdict consider(const messages::shard_report& shard);
  /// Decisions from now on carry at least this term.
  void raise_term(std::uint64_t term);
  std::uint64_t term() const { return term_; }
  /// Takes a policy version; an error message if it does not fit.
  std::string adopt(const messages::policy_version& version);
  void forget(std::uint32_t rank);
  const policy::controller& controller() const { return *controller_; }

private:
  ledger_worker judge(const messages::window_report& report, bool stale);

  const cluster::cluster_file file_;
  bool adaptive_optimizer_;
  std::unique_ptr<policy::controller> controller_;
  bool learning_;
  std::uint64_t term_;
  policy::rollout_builder rollout_;
  policy::accuracy_history accuracies_;
  std::map<std::uint32_t, std::uint32_t> assigned_; ///< batch last decided, by rank
};

} // namespace dynamix::actors
