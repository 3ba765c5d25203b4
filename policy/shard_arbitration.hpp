#pragma once

/// Deciding in a tree of arbitrators. A shard decides its own workers' windows at once, by the newest guidance that it
/// has; the root joins what the shards have seen and decided, judges it, and says what follows for all: the guidance
/// for the windows to come. Both use the controllers of the central form (policy/controller.hpp). Includes no Torch.

#include "messages/types.hpp"
#include "policy/arbitration.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace dynamix::policy {

/// Which workers' states go up the tree: as many as fit into the budget, the same ones for a whole generation (a
/// trajectory needs consecutive windows), drawn by a hash that every shard computes alike. Rising.
std::vector<std::uint32_t> sample_ranks(const std::vector<std::uint32_t>& members, std::uint64_t generation,
                                        std::uint64_t budget_bytes, std::uint64_t worker_bytes);
/// Bytes of a worker's state, probabilities and reason in a frame.
std::uint64_t detail_bytes(std::size_t state_size, std::size_t actions);

struct shard_verdict {
  std::vector<messages::decision> decisions; ///< one a worker; none on the last window
  messages::shard_window window;             ///< for the parent
};

class shard_arbitration {
public:
  shard_arbitration(const cluster::cluster_file& file, std::unique_ptr<controller> decider);

  shard_verdict consider(const messages::shard_report& shard);
  /// The newest counts; what is older than that of the same generation is dropped.
  void take(messages::guidance known);
  /// All members of a generation: from them the sample is drawn.
  void enter(std::uint64_t generation, const std::vector<std::uint32_t>& members);
  void raise_term(std::uint64_t term) { term_ = std::max(term_, term); }
  std::string adopt(const messages::policy_version& version) { return controller_->adopt(version); }
  void forget(std::uint32_t rank) { assigned_.erase(rank); }
  const policy::controller& controller() const { return *controller_; }
  const messages::guidance& known() const { return known_; }

private:
  std::vector<choice> decide(const observation& own);
  void enter_generation(std::uint64_t generation);

  const cluster::cluster_file file_;
  std::vector<std::uint32_t> highest_; ///< batch size by rank
  std::unique_ptr<policy::controller> controller_;
  measured_cluster measured_;
  messages::guidance known_;
  std::uint64_t term_ = 1;
  std::uint64_t generation_ = 0;
  std::uint64_t sampled_generation_ = 0;
  std::vector<std::uint32_t> sampled_;
  std::map<std::uint32_t, std::uint32_t> assigned_; ///< batch last decided, by rank
};

struct root_verdict {
  judged_window window;
  std::vector<messages::trajectory> rollout; ///< complete, for the learner; mostly empty
  messages::guidance known;                  ///< for all shards
};

class root_arbitration {
public:
  root_arbitration(const cluster::cluster_file& file, std::unique_ptr<controller> decider);

  root_verdict consider(const messages::shard_window& joined);
  void raise_term(std::uint64_t term) { term_ = std::max(term_, term); }
  std::string adopt(const messages::policy_version& version) { return controller_->adopt(version); }
  void forget(std::uint32_t rank);
  const policy::controller& controller() const { return *controller_; }

private:
  judged_worker judge(const messages::shard_window& joined, std::size_t index);

  const cluster::cluster_file file_;
  std::vector<std::uint32_t> highest_;
  bool adaptive_optimizer_;
  std::unique_ptr<policy::controller> controller_;
  bool learning_;
  std::uint64_t term_ = 1;
  std::uint64_t generation_ = 0;
  measured_cluster measured_;
  rollout_builder rollout_;
  accuracy_history accuracies_;
  std::string ruled_intervention_; ///< in the guidance before, by which the joined window was decided
};

} // namespace dynamix::policy
