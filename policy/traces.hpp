#pragma once

/// Coordination by traces alone, after S-MADRL (arXiv 2510.03592): workers that share one passage, the step's barrier,
/// lay decaying traces where all see them, and each chooses its own batch size by what it senses itself and by the
/// traces. Nobody decides for another, and there is no message but the slot that the sums of a step carry anyway.
/// Pure, without Torch.

#include "messages/types.hpp"
#include "policy/exchange_estimate.hpp"
#include "policy/pace_tracker.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace dynamix::policy {

/// What a worker lays down at the end of a step.
struct trace {
  std::uint32_t batch = 0; ///< that it takes next; 0: it has not measured itself yet
  double arrival = 0;      ///< seconds that it computed in this step, > 0
  double aim = 0;          ///< seconds that it takes for the right ones of the next step, for all
  double expected = 0;     ///< seconds that it means to compute itself, before its batch size is rounded
  double supply = 0;       ///< samples that it would compute more in a second more; 0 where a bound holds it
};

/// A trace as it travels: 20 bytes, a worker's slot of what the workers sum at every step.
inline constexpr std::size_t trace_floats = 5;
using trace_slot = std::array<float, trace_floats>;
trace_slot encode(const trace& laid);
/// One whose batch is 0 where the numbers are none that a step can have.
trace decode_trace(std::span<const float, trace_floats> slot);

/// The batch sizes of the next step: those that the traces name, inside the limits, or what is in force while a worker
/// has not measured itself. Nothing but comparisons, so they are the same on all workers.
std::vector<std::uint32_t> batches_of(std::span<const trace> laid, const std::vector<std::uint32_t>& in_force,
                                      std::uint32_t lowest, std::span<const std::uint32_t> highest);

/// The field that the traces make: where workers arrive, in shares of the slowest's time, and what more of a step's
/// time would buy. What was laid down evaporates, and spreads to its neighbours in the order of arrival.
class trace_field {
public:
  static constexpr std::size_t cells = 32;
  using density = std::array<double, cells>;

  /// One trace a worker, of one step. Those of a step in which somebody has not measured itself only tell arrivals.
  void deposit(std::span<const trace> laid);

  /// Whether anything has been laid down that workers can go by.
  bool ready() const { return aim_ > 0; }
  /// Whether all have laid a trace of the newest step. In the first one, which nobody measures, and in an epoch's short
  /// one they have not: then arrivals tell nothing of the slowest.
  bool complete() const { return complete_; }
  /// Share of the traces by arrival over the slowest's; sums to at most 1.
  const density& arrivals() const { return arrivals_; }
  /// Where the worker arrives, as a cell.
  static std::size_t cell_of(double arrival, double slowest);
  double centre() const; ///< mean arrival over the slowest's, (0, 1]; 1 while nothing is laid down
  /// Seconds that workers mean to compute: the geometric mean of the aims of those whom no bound holds, and no less
  /// than what a worker at its lowest batch size takes, less the delay that is counted on (`lateness`).
  double aim() const { return aim_; }
  /// What a worker at its lowest batch size takes, where there has been one for a while, less the delay that is counted
  /// on: nobody gains by less.
  double bound() const { return bound_; }
  double expected() const { return expected_; }       ///< the same mean of what they will compute, by their choice
  double slowest() const { return slowest_; }         ///< seconds of the last step
  double slowest_but_one() const { return but_one_; } ///< 0 without a second worker
  double supply() const { return supply_; }           ///< of all workers together
  double total() const { return total_; }             ///< global batch of the next step
  /// What it would be if all did what the hand rule says. The aim follows from this, not from what they do: otherwise
  /// all could be late or early together, and the aim would move until that is right.
  double total_at_aim() const;
  double passed_total() const { return passed_total_; } ///< and of the last one
  double trembling() const { return trembling_; }       ///< mean deviation of arrivals from the aims' logarithm
  /// Logarithm by which a step takes longer than all aim at because somebody is slower than it was: the median of the
  /// last steps. Of many workers somebody nearly always is.
  double lateness() const { return lateness_; }
  std::size_t workers() const { return workers_; }

private:
  density arrivals_{};
  double aim_ = 0;
  double bound_ = 0;
  double expected_ = 0;
  double slowest_ = 0;
  double but_one_ = 0;
  double supply_ = 0;
  double total_ = 0;
  double passed_total_ = 0;
  double trembling_ = 0;
  std::size_t workers_ = 0;
  bool complete_ = false;
  std::vector<double> expectations_; ///< of the step before, for `trembling`
  std::array<double, 16> delays_{};  ///< of the last steps, for `lateness`
  std::size_t delayed_steps_ = 0;    ///< that were measured
  double lateness_ = 0;
};

/// Logarithm by which a decision moves what all aim at, whose global batch is off by `log_change`, a logarithm too,
/// from what they have without it: a decision is a wish among theirs and counts a tenth, within bounds.
double wish_shift(double log_change);

/// What a central decision adds to traces: its global batch is a wish, and counts by its weight in what all aim at. The
/// same on all workers, from what all of them know.
class central_wish {
public:
  /// A window has closed, whose last step had this global batch.
  void close(std::uint64_t window, std::uint64_t total);
  /// The decision on that window is in force from now on. One on a window that nobody remembers changes nothing.
  void decide(std::uint64_t window, std::uint64_t total);
  /// Of the logarithm of the aim.
  double correction() const { return correction_; }

private:
  struct closed_window {
    std::uint64_t window = 0;
    double neutral = 0; ///< logarithm of its global batch without the correction that was in force
  };
  std::array<closed_window, 8> closed_{};
  double correction_ = 0;
};

/// What a worker may do: arrive where the others mean to, earlier or later.
inline constexpr std::array trace_actions{1.0, 0.80, 0.90, 0.96, 1.04, 1.10, 1.25};
/// Action 0 for all is the hand rule: no learning, the same traces.
inline constexpr std::size_t hand_action = 0;

inline constexpr std::size_t trace_inputs = 26;
using trace_view = std::array<float, trace_inputs>;

/// One worker: it measures itself, sees the field of the steps before, and lays down its trace.
class trace_worker {
public:
  struct limits {
    std::uint32_t lowest = 1;
    std::uint32_t highest = 1;
    double least_total = 0; ///< samples that a step of all of them has at least, where their limits allow that
  };
  /// `masked`: it neither sees nor uses the traces, and goes by its own time and its wait at the barrier alone.
  explicit trace_worker(limits bounds, bool masked = false) : bounds_(bounds), masked_(masked) {}

  /// It has computed a step, whose end nobody knows yet.
  void measure(std::uint32_t batch, double seconds);
  /// The step is over for all; `field` has its traces.
  void pass_barrier(const trace_field& field, double step_seconds);
  bool measured() const { return pace_.measured(); }
  /// What its network sees. `noise_scale`: of the gradient; negative while it is not measured.
  trace_view view(const trace_field& field, double noise_scale) const;
  /// Its trace under an action; nobody's while it has not measured itself. `correction`: of the logarithm of the aim
  /// that the hand rule would come to (central_wish).
  trace choose(const trace_field& field, double noise_scale, std::size_t action, double correction = 0);
  /// d log T / d log T_grad: how much a step's time follows its slowest worker's, by how the two have changed.
  double elasticity() const { return elasticity_; }
  const pace_tracker& pace() const { return pace_; }
  /// Of the step that has passed the barrier: log2 of its goodput over what it would have been, had this worker taken
  /// what action 0 says, by its own table and the traces of the others (a difference reward: Wolpert and Tumer,
  /// "Optimal payoff functions for members of collectives", 2001).
  double worth(const trace_field& field, double noise_scale) const;

private:
  /// Logarithm by which the field's aim should change at least, for the least global batch.
  double least_shift(const trace_field& field) const;
  /// Logarithm by which the field's aim should change.
  double shift(const trace_field& field, double noise_scale, double correction) const;
  double urge(const trace_field& field, double noise_scale) const;
  double reference(const trace_field& field) const;
  std::uint32_t batch_for(double seconds) const;
  /// Whether what it computes now is near enough to the aim.
  bool settled(double aim) const;

  limits bounds_;
  bool masked_;
  pace_tracker pace_;
  std::uint32_t batch_ = 0;
  double seconds_ = 0;
  double surprise_ = 0;    ///< log of measured over expected seconds
  double step_change_ = 0; ///< log of the step's seconds over the one before
  double step_seconds_ = 0;
  double barrier_ = 0; ///< log of the seconds after which the barrier opened, remembered
  std::size_t action_ = hand_action;
  std::uint32_t unchosen_ = 0; ///< what action 0 would have chosen for the step that runs
  std::uint32_t next_unchosen_ = 0;
  std::uint64_t changes_ = 0;
  double since_change_ = 1;
  exchange_estimate exchange_;
  double elasticity_ = 1; ///< at the field's aim
};

/// What was moved to or from one worker in a window, for its report.
class reflex_account {
public:
  /// Of a step that runs with `in_force`, where the newest window ended with `decided`; the traces have just changed
  /// the batch sizes of any worker (`moved`).
  void add(std::uint32_t in_force, std::uint32_t decided, bool moved);
  /// Of the steps since the last call.
  messages::reflex_statistics take(const pace_tracker& own);

private:
  messages::reflex_statistics sums_;
  std::uint64_t changes_before_ = 0;
  std::optional<double> pace_before_; ///< nothing before the first window that was measured
};

} // namespace dynamix::policy
