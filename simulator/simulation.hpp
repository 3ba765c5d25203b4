#pragma once

/// A run in virtual time: a world, and the decision code of the live system (policy/deliberation.hpp) on top. A
/// decision comes into force when it does in training (cluster/decision_steps.hpp). With arbitrator.balance the workers
/// share the global batch by their paces at every step (simulator/balanced_group.hpp).
///
/// When hosts come or go, the new generation's batch sizes keep the global batch and the proportions, those who come
/// counting as average ones, as far as the limits allow. Decisions that were made for the old generation are dropped.

#include "policy/deliberation.hpp"
#include "simulator/balanced_group.hpp"
#include "simulator/oracle.hpp"
#include "simulator/world.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace dynamix::simulator {

struct run_result {
  std::string failure;           ///< empty: none so far
  double seconds = 0;            ///< virtual, so far
  double seconds_to_target = -1; ///< negative if never
  double final_accuracy = 0;     ///< of the newest evaluation; without its noise where the workload has none
  double progress = 0;           ///< epochs at the reference batch
  std::uint64_t samples = 0;
  std::uint64_t steps = 0;
  std::uint64_t windows = 0;
  std::uint64_t decisions = 0;     ///< one a worker and decided window
  std::uint64_t changes = 0;       ///< decisions that changed a batch size
  std::uint64_t interventions = 0; ///< windows in which the guard overrode the policy
};

class simulation {
public:
  /// Policy and mode are the file's; `parameters`: of a learned policy, as for make_controller. `oracle` sets the best
  /// batch sizes before every window, knowing the truth. `seed` is the world's; the policy's own is the file's. Throws
  /// std::invalid_argument when parameters do not fit.
  simulation(scenario what, const std::vector<std::uint8_t>& parameters, std::uint64_t seed);
  /// The same with any controller.
  simulation(scenario what, std::unique_ptr<policy::controller> decider, std::uint64_t seed);
  simulation(simulation&&) noexcept;
  ~simulation();

  /// Runs one window and decides on it. False, and nothing has been run, where the run is over: the target reached, the
  /// epochs done, or failed. The last window is final: nothing is decided on it.
  bool advance();
  bool done() const;
  /// Of the newest window; empty before the first.
  const policy::judged_window& window() const;
  /// A complete rollout that the newest window ended, mostly none; moved out.
  std::vector<messages::trajectory> take_rollout();
  /// As policy::controller::adopt.
  std::string adopt(const messages::policy_version& version);
  const simulator::world& world() const;
  /// One, at the window's end, for each window that passed a multiple of training.evaluate_every_epochs and for the
  /// last; with an evaluation's noise. Where the workload has them, one that reaches the target ends the run.
  const std::vector<messages::evaluation_report>& evaluations() const;
  run_result result() const;

private:
  struct state;
  std::unique_ptr<state> state_;
};

} // namespace dynamix::simulator
