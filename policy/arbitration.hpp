#pragma once

/// Decides a shard's windows: reports in, decisions and an account of them out. The arbitrator actor and the simulator
/// run this same code. Includes no Torch.

#include "cluster/cluster_file.hpp"
#include "messages/types.hpp"
#include "policy/accuracy_history.hpp"
#include "policy/attribution.hpp"
#include "policy/controller.hpp"
#include "policy/measured_cluster.hpp"
#include "policy/reward.hpp"
#include "policy/rollout.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace dynamix::policy {

/// One worker in a judged window.
struct judged_worker {
  messages::window_report report;
  bool stale = false;               ///< an older report stood in for a late one
  time_split time;                  ///< where a step's time went; of a stale report, its own parts only
  reward_terms reward;              ///< of report.window, earned by report.decision
  std::vector<float> state;         ///< normalised, as the policy saw it
  std::vector<float> probabilities; ///< of the actions
  std::int32_t action = -1;
  float log_probability = 0;
  float value = 0;
  std::uint32_t assigned_batch = 0; ///< before the decision
  std::uint32_t decided_batch = 0;
  std::uint32_t proposed_batch = 0; ///< by the policy; another than decided where the guard or shadow mode stepped in
  std::string intervention;         ///< why the guard stepped in; empty: it did not
  std::string reason;
  double predicted_seconds = -1;   ///< computing time of a step at the decided batch; negative: nothing measured
  std::uint32_t planned_batch = 0; ///< in the plan with the highest goodput; 0: the policy needed no plan
};

/// What the measurements promised for some batch sizes (measured_cluster::judge). All 0: not known.
struct promised_step {
  std::uint64_t total = 0;    ///< samples a step
  double slowest_seconds = 0; ///< computing time of the slowest worker
  double goodput = 0;         ///< samples a second, each as good as one of the initial global batch
};

/// What was expected of a decision when it was made. Nothing while no worker is measured.
struct window_prediction {
  double exchange_seconds = 0;
  double noise_scale = -1; ///< samples; negative: not measured
  promised_step assigned;  ///< had nothing been decided
  promised_step decided;
  promised_step planned; ///< the highest goodput, where the policy asked for it
};

/// A window as the ledger keeps it.
struct judged_window {
  messages::decision_key key;
  std::uint64_t generation = 0;
  std::uint64_t policy_version = 0;
  bool decided = true;                ///< false on the last window, on which nothing is decided
  double gather_seconds = 0;          ///< first report to the last, or to the deadline
  double decide_seconds = 0;          ///< rewards, policy and sending
  std::vector<judged_worker> workers; ///< by rank
  window_prediction predicted;
  std::string guard; ///< controller::guard_view
};

struct verdict {
  std::vector<messages::decision> decisions; ///< one a worker; none on the last window
  judged_window window;
  std::vector<messages::trajectory> rollout; ///< complete, for the learner; mostly empty
};

/// Fills in what is expected of the decisions in `window`, whose workers are those that were measured last, in order.
void predict(const measured_cluster& measured, judged_window& window);

class arbitration {
public:
  arbitration(const cluster::cluster_file& file, std::unique_ptr<controller> decider, std::uint64_t term);

  /// Judges one window: rewards what was in force, decides what comes next. A new generation starts with what its
  /// reports say is in force.
  verdict consider(const messages::shard_report& shard);
  /// Decisions from now on carry at least this term.
  void raise_term(std::uint64_t term);
  std::uint64_t term() const { return term_; }
  /// Takes a policy version; an error message if it does not fit.
  std::string adopt(const messages::policy_version& version);
  void forget(std::uint32_t rank);
  const policy::controller& controller() const { return *controller_; }

private:
  void enter_generation(std::uint64_t generation);
  judged_worker judge(const messages::window_report& report, bool stale, double progress);
  void decide(const messages::shard_report& shard, verdict& result);

  const cluster::cluster_file file_;
  const std::vector<std::uint32_t> highest_; ///< batch size by rank
  bool adaptive_optimizer_;
  std::unique_ptr<policy::controller> controller_;
  bool learning_;
  std::uint64_t term_;
  std::uint64_t generation_ = 0;
  measured_cluster measured_;
  rollout_builder rollout_;
  accuracy_history accuracies_;
  std::map<std::uint32_t, std::uint32_t> assigned_; ///< batch last decided, by rank
};

} // namespace dynamix::policy
