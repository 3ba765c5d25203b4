#pragma once

/// How windows are decided and judged: reports in, decisions and an account of them out. Arbitrators, the simulator and
/// the replay run this same code. Includes no Torch.
///
/// A controller decides in four parts (policy/controller.hpp): survey and rule look at all workers, propose and settle
/// at some. One arbitrator for all runs them in a row on the same window. In a tree (ARCHITECTURE.md) each shard
/// proposes and settles for its own workers at once, by the newest guidance; the root joins what the shards have seen
/// and decided, judges it, and surveys and rules for the windows to come. One arbitrator is so a tree of one shard
/// whose guidance is of the same window.

#include "cluster/cluster_file.hpp"
#include "messages/types.hpp"
#include "policy/accuracy_history.hpp"
#include "policy/agreed_steps.hpp"
#include "policy/controller.hpp"
#include "policy/judged_window.hpp"
#include "policy/measured_cluster.hpp"
#include "policy/rollout.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace dynamix::policy {

/// What one arbitrator for all makes of a window.
struct verdict {
  std::vector<messages::decision> decisions; ///< one a worker; none on the last window
  judged_window window;
  std::vector<messages::trajectory> rollout; ///< complete, for the learner; mostly empty
  std::vector<doubted_steps> doubted;        ///< whose word on the steps did not count
};

struct shard_verdict {
  std::vector<messages::decision> decisions; ///< one a worker; none on the last window
  messages::shard_window window;             ///< for the parent
  std::vector<doubted_steps> doubted;        ///< whose word on the steps did not count
};

struct root_verdict {
  judged_window window;
  std::vector<messages::trajectory> rollout; ///< complete, for the learner; mostly empty
  messages::guidance known;                  ///< for all shards
};

/// Which workers' states go up the tree: as many as fit into the budget, the same ones for a whole generation (a
/// trajectory needs consecutive windows), drawn by a hash that every shard computes alike. Rising.
std::vector<std::uint32_t> sample_ranks(const std::vector<std::uint32_t>& members, std::uint64_t generation,
                                        std::uint64_t budget_bytes, std::uint64_t worker_bytes);

class deliberation {
public:
  deliberation(const cluster::cluster_file& file, std::unique_ptr<controller> decider);

  /// One arbitrator for all: rewards what was in force, decides what comes next. A new generation starts with what its
  /// reports say is in force.
  verdict consider(const messages::shard_report& all);
  /// A shard: decides for its own workers by the newest guidance; keeps what is assigned while there is none.
  shard_verdict decide(const messages::shard_report& own);
  /// The root of a tree: judges what the shards have decided, and guides them.
  root_verdict join(const messages::shard_window& joined);

  /// Guidance from the root: the newest counts; what is older than that of the same generation is dropped.
  void follow(messages::guidance known);
  /// All members of a generation: from them the sample is drawn.
  void enter(std::uint64_t generation, const std::vector<std::uint32_t>& members);
  /// Decisions from now on carry at least this term.
  void raise_term(std::uint64_t term);
  std::uint64_t term() const { return term_; }
  /// Takes a policy version; an error message if it does not fit.
  std::string adopt(const messages::policy_version& version) { return controller_->adopt(version); }
  /// The worker has left; the next window's account says so.
  void forget(std::uint32_t rank);
  const policy::controller& controller() const { return *controller_; }
  const messages::guidance& known() const { return known_; }

private:
  /// What was chosen for one worker, here or by a shard.
  struct settled_choice {
    choice made;
    messages::decision_key key; ///< window 0: nothing was decided
    std::uint64_t policy_version = 0;
    std::uint32_t assigned = 0; ///< batch before it
  };
  void begin(const messages::shard_report& seen);
  observation observe(const messages::shard_report& seen);
  std::vector<choice> choose_by_guidance(const observation& own);
  std::vector<settled_choice> settle(const observation& own, std::vector<choice> choices, bool decided);
  agreed_steps steps_of(const messages::shard_report& seen) const;
  std::vector<messages::decision> decisions_of(const messages::shard_report& own, std::uint64_t due_step,
                                               const std::vector<settled_choice>& settled) const;
  messages::shard_account account_for(const messages::shard_report& own);
  std::vector<std::uint32_t> take_forgotten();
  judged_window judge(const messages::shard_report& all, std::vector<settled_choice> settled, bool decided);
  judged_worker judge(const messages::window_report& report, std::uint64_t window, settled_choice settled);
  messages::worker_choice account_of(settled_choice settled, bool in_detail) const;
  settled_choice settled_from(const messages::worker_choice& account) const;

  const cluster::cluster_file file_;
  const std::vector<std::uint32_t> highest_; ///< batch size by rank
  bool adaptive_optimizer_;
  std::unique_ptr<policy::controller> controller_;
  bool learning_;
  std::uint64_t term_ = 1;
  std::uint64_t generation_ = 0;
  measured_cluster measured_;
  std::map<std::uint32_t, std::uint32_t> assigned_; ///< batch last decided here, by rank
  std::set<std::uint32_t> forgotten_;               ///< since the window before
  // Of who judges.
  rollout_builder rollout_;
  accuracy_history accuracies_;
  std::string intervention_; ///< in the guidance before, by which the joined window was decided
  // Of a shard.
  ruling known_;
  std::uint64_t windows_decided_ = 0;
  std::uint64_t sampled_generation_ = 0;
  std::vector<std::uint32_t> sampled_;
};

} // namespace dynamix::policy
