#pragma once

/// Hosts, network and learning in virtual time: batch sizes in, window reports out. Knows nothing of policies but their
/// step-time curves. The same scenario, seed and batch sizes give bit-identical reports; and hosts slow down, links
/// congest, hosts come and go at the same virtual times whatever the batch sizes are.
///
/// A step: worker i needs w_i = curve_i(b_i) * exp(noise * n) seconds of computing, n standard normal, and takes
/// t_i = w_i * f_i, f_i the product of the file's `emulate` and the window's hiccup, and longer by an episode's factor
/// while one lasts, which may begin or end within the step. T_grad = max t_i; T from it and the exchange as in
/// step_model.hpp. Where `cores` are shared a worker gets them after c_i >= w_i seconds and then waits, t_i = c_i * f_i
/// with the episode at the step's beginning in f_i, while the others go on (simulator/step_model.hpp, shared_cores).
///
/// Evaluations, where the workload has them, are shared out and slowed down as steps are.
///
/// Not modelled: `emulate` and congestion of links change between steps only; checkpoints take no time; the exchange
/// needs no core; hosts come and go between windows only, and what was computed is never lost.

#include "messages/types.hpp"
#include "simulator/learning.hpp"
#include "simulator/random_stream.hpp"
#include "simulator/scenario.hpp"
#include "simulator/slowdown_course.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dynamix::simulator {

/// The world as it truly is at one moment, for the oracle and for tests. Workers in the order of ranks.
struct truth {
  std::vector<const device_profile*> profiles; ///< the world's own
  std::vector<slowdown_course> slowdown;       ///< of computing, from now on; >= 1
  std::vector<std::uint32_t> highest;          ///< batch size that the file and the device's memory allow
  std::uint32_t cores = 0;                     ///< 0: none are shared
  double exchange_seconds = 0;                 ///< T_sync
  double overlap = 1;                          ///< g
  double phi = 0;
  simulator::learning learning;

  /// Seconds of a step without noise at these batch sizes.
  double step_seconds(std::span<const std::uint32_t> batches) const;
  /// Samples per second, each worth one at B_ref.
  double goodput(std::span<const std::uint32_t> batches) const;
};

struct evaluation {
  double accuracy = 0; ///< of the test set, with an evaluation's noise
  double seconds = 0;  ///< that it took
};

struct window_summary;
struct worker_sums;

class world {
public:
  /// Virtual time that a change of the hosts costs. The new generation is of those who are there after it, and goes on
  /// from what has been learned.
  static constexpr double restart_seconds = 5;

  world(scenario what, std::uint64_t seed);
  world(world&&) noexcept;
  ~world();

  /// Runs one window of file.arbitrator.window_steps steps under these batch sizes (of those present, > 0), which
  /// `in_force` put in force, and reports it as the trainer does; a report's rank is the host's position. `settling`,
  /// where not empty, are the batch sizes of its first cluster::settle_steps steps; times then are of those that
  /// follow. Hosts that come or go by the window's end make a new generation then. A batch size above what a device's
  /// memory holds runs nothing: `failure` then says so, and the report is empty, as it is ever after. Throws
  /// std::invalid_argument unless there is one batch size per worker.
  messages::shard_report run_window(std::span<const std::uint32_t> batches, messages::decision_key in_force,
                                    std::span<const std::uint32_t> settling = {});
  /// The same, but before every step `choose` says the batch sizes of it. The report tells those of the last step, and
  /// the times since the batch sizes last changed; `in_force` is read when it has run.
  messages::shard_report run_window(const std::function<std::vector<std::uint32_t>()>& choose,
                                    const messages::decision_key& in_force);

  /// Evaluates as the workers of the newest window would, and notes when the target is reached. `numbers`: of its
  /// noise.
  evaluation evaluate(random_stream& numbers);

  /// Positions in the file's workers of the hosts that are there, which are their ranks, as in training; changes with
  /// the generation.
  const std::vector<std::size_t>& present() const;
  std::uint64_t generation() const; ///< from 1
  /// What holds now, as if it lasted; without hiccups.
  truth look() const;
  /// What the step that begins now will meet: the window's hiccups, and episodes that begin and end meanwhile.
  truth look_at_step();
  /// Seconds that each worker computed in the newest step; 1 before the first of a generation.
  const std::vector<double>& computed_seconds() const;
  double newest_step_seconds() const; ///< of the newest step; 0 before the first

  double now_seconds() const;
  double progress() const; ///< epochs at the reference batch
  double accuracy() const; ///< of the test set, without noise
  std::uint64_t samples() const;
  std::uint64_t steps() const;
  double epochs() const; ///< samples over those of an epoch
  /// Virtual time at which the model reached file.training.target_accuracy; negative while it has not. At an evaluation
  /// or, where the workload has none, within the step.
  double seconds_to_target() const;
  const std::string& failure() const; ///< empty: none
  const scenario& what() const;

private:
  struct state;
  messages::shard_report report(const window_summary& summary, std::span<const worker_sums> sums,
                                std::span<const std::uint32_t> batches, messages::decision_key in_force);
  std::unique_ptr<state> state_;
};

} // namespace dynamix::simulator
