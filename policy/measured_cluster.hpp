#pragma once

/// What the windows have taught about a cluster: step times, exchange, gradient noise; and the batch sizes that they
/// speak for. Shared by the goodput policy, the learned policies, the guard and the reward. Includes no Torch.

#include "cluster/cluster_file.hpp"
#include "messages/types.hpp"
#include "policy/step_time_table.hpp"
#include "policy/worker_memory.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace dynamix::policy {

/// How far a worker's newest window is believed when its step time is predicted.
enum class belief : std::uint8_t {
  average, ///< the step-time table as it is
  newest,  ///< the table, scaled so that it gives the newest window's time
  cautious ///< the table, 10 % slower
};
inline constexpr std::size_t beliefs = 3;

/// Batch sizes and what they promise.
struct batch_plan {
  std::vector<std::uint32_t> batches; ///< in the reports' order
  std::uint64_t total = 0;            ///< samples per step
  double slowest_seconds = 0;         ///< expected computing time of a step by whoever is the slowest in it
  double level_seconds = 0;           ///< the predicted one that was planned: `slowest_seconds` without stragglers
  double goodput = 0;                 ///< samples per second, each as good as one of the initial global batch
};

struct worthwhile_plan {
  std::string reason; ///< why these and no others, for a person
  batch_plan plan;
};

class measured_cluster {
public:
  /// `rule`: plans go below the initial global batch where it allows that (cluster::goes_below_initial).
  /// `base_workers`: whose initial batch sizes make B0, which the trainer's learning rate is for
  /// (cluster::base_workers), whoever is there now; 0: those of the window.
  explicit measured_cluster(const cluster::batch& limits,
                            cluster::learning_rate_rule rule = cluster::learning_rate_rule::adascale,
                            std::uint32_t base_workers = 0)
      : limits_(limits), rule_(rule), base_workers_(base_workers) {}

  /// Takes a window in. Everything below speaks of the workers of this window, in the reports' order. `highest` holds
  /// what each may be given at most; empty: limits.highest. What was learned of a host outlasts generations.
  void measure(const messages::shard_report& shard, std::vector<std::uint32_t> highest = {});

  std::size_t size() const { return now_.size(); }
  /// Whether any worker has been measured; predictions and plans are for a cluster that has been. A worker without a
  /// measurement counts as an average one.
  bool any_measured() const;
  bool measured(std::size_t worker) const { return !now_[worker].curve.empty(); }

  /// How many times the median worker's computing time the slowest one's is expected to be, where it could be given
  /// less: noise, and hosts that slow down in the very step. Of many somebody always does (the expected maximum), but
  /// that lengthens a step as the batch sizes do, while a host that is slow at its smallest batch size does so anyway.
  /// At least 1.
  double straggling() const { return std::exp(straggling_); }
  /// Predicted computing time of a step. Only for a measured worker.
  double seconds(std::size_t worker, double batch) const { return now_[worker].curve.seconds(batch); }
  /// log2(the newest window's computing time / what was expected of it); 0 without an expectation.
  double surprise(std::size_t worker) const { return now_[worker].surprise; }
  /// Root of the moving mean of surprise^2, changes of speed left out.
  double jitter(std::size_t worker) const { return now_[worker].jitter; }
  /// Part of a step that no worker computes in: the shortest time that a worker of a window was blocked, for the
  /// slowest waits for nobody; its moving mean. 0 while not measured.
  double exchange_seconds() const { return std::max(0.0, exchange_seconds_); }
  /// The newest window's noise scale in samples, which the workers have averaged over steps; negative while not
  /// measured.
  double noise_scale() const { return noise_scale_; }
  /// Whether the window ended among the first steps of training, in which the global batch stands.
  bool early() const { return early_; }
  /// Whether the noise scale tells what a batch is worth: there is one, and it is not early.
  bool noise_known() const { return noise_scale_ >= 0 && !early_; }
  /// Standard error of its natural logarithm; 0 while nobody says.
  double noise_error() const { return noise_error_; }
  /// The noise scale over its moving average, by which it changes; 1 while not measured.
  double noise_trend() const;
  /// The global batch that a script's training began with, which no cluster file knows; 0: none has told.
  std::uint64_t told_base() const { return told_base_; }
  /// B0, the initial global batch.
  std::uint64_t initial_total() const {
    return told_base_ > 0 ? told_base_ : std::uint64_t{limits_.initial} * (base_workers_ == 0 ? size() : base_workers_);
  }
  std::uint64_t lowest_total() const { return std::uint64_t{limits_.lowest} * size(); }
  std::uint64_t highest_total() const;
  /// The smallest global batch that a plan may have. The initial one where the learning rate would not be right below
  /// it. Elsewhere that, or twice what has run where training began with less, while there is no noise scale to tell
  /// what another is worth. Among the first steps what runs.
  std::uint64_t least_planned() const;
  /// The largest that it may have where that is not less: twice what runs now, so that what the others are given while
  /// a host hiccups does not grow with each hiccup; below the initial one twice that, or twice the largest that this
  /// generation has run of late where that is less (Pollux's limit). Among the first steps of training what runs.
  std::uint64_t largest_planned() const;
  std::uint32_t lowest() const { return limits_.lowest; }
  std::uint32_t highest(std::size_t worker) const { return highest_[worker]; }

  /// What a sample is worth beside one of the initial global batch, at least: (p + B0)/(p + B), 1 where phi tells
  /// nothing (Pollux, arXiv 2008.12260, formula 7). The critical batch p is near the noise scale phi, at times half or
  /// twice that, so it counts as larger below B0 and as smaller above: B0 stands unless another batch gains more than
  /// phi may be wrong by.
  double efficiency(double total) const;
  /// What these batch sizes promise. `how`: one belief per worker; empty: average.
  batch_plan judge(std::vector<std::uint32_t> batches, std::span<const belief> how = {}) const;
  /// The split of `total` (brought inside the limits) with the shortest step, by water-filling; of those that take as
  /// long the most even one.
  batch_plan split(std::uint64_t total, std::span<const belief> how = {}) const;
  /// What all workers compute within so many seconds, each as much as it can.
  batch_plan within(double seconds, std::span<const belief> how = {}) const;
  /// The split with the highest goodput among global batches in [from, to]. Without phi: that of `from`.
  batch_plan best(double from, double to, std::span<const belief> how = {}) const;
  /// `best` from `least_planned` to `largest_planned`.
  batch_plan best(std::span<const belief> how) const;
  /// The same under average beliefs: found once a window, for the policy and the guard both ask.
  const batch_plan& best() const;
  /// The same where it has been asked for in this window; null where nobody needed it.
  const batch_plan* best_if_found() const { return best_ ? &*best_ : nullptr; }

  /// The global batch of `plan` in equal shares, or else in those that are `assigned`, unless the predicted gain of the
  /// plan's exceeds 2 % and what predicted times are off by.
  batch_plan keep_shares(batch_plan plan, const std::vector<std::uint32_t>& assigned,
                         std::span<const belief> how) const;
  /// What is worth changing of what is assigned: nothing, the shares alone, or all of `plan`. What is further from what
  /// runs has to gain 2 % over what is nearer, and what predicted times are off by. Only a global batch below the
  /// initial one grows for less, so that a small one ends when nothing speaks for it any more. The shares are equal
  /// ones, or else those that are assigned, unless others gain as much.
  worthwhile_plan worthwhile(batch_plan plan, const std::vector<std::uint32_t>& assigned,
                             std::span<const belief> how = {}) const;

  /// log2(goodput that the newest window had / the best that was to be had, by the newest measurements); 0 while
  /// nothing is measured. Within [-5, 5]. For a window that ran at the best batch sizes it is near 0, whatever the
  /// cluster.
  double progress() const { return progress_; }

private:
  static constexpr double error_at_first = 0.15; ///< log2
  struct memory {
    step_time_table computing;
    double surprise = 0;
    double correction = 0; ///< log2(the newest window's computing time / what the table says now)
    double jitter = 0;
    double error = error_at_first; ///< of times predicted between batch sizes measured, a root mean square as
                                   ///< `jitter`; less is to be shown
    double predictions = 1;        ///< that `error` is of
  };
  /// One worker of the window at hand.
  struct worker_now {
    step_time_curve curve;
    double surprise = 0;
    double correction = 0;
    double jitter = 0;
    double error = 0;
  };
  /// Whether it tells of a window that had not been measured yet.
  bool take(const messages::window_report& report);
  double factor(std::size_t worker, belief how) const;
  double factor(std::size_t worker, std::span<const belief> how) const {
    return factor(worker, how.empty() ? belief::average : how[worker]);
  }
  /// What is the same for every step time that a plan looks at.
  struct pace {
    std::vector<double> factors; ///< on the predicted times, by worker
    bool all_measured;
  };
  pace pace_of(std::span<const belief> how) const;
  /// Samples that an average worker computes within so many seconds.
  double average_within(double seconds) const;
  /// Median predicted computing time of the measured workers that may be given more and less; 0 where there is none.
  double median_seconds(std::span<const std::uint32_t> batches, const pace& all) const;
  /// The longest predicted computing time at the smallest batch size: no step is shorter.
  double floor_seconds(const pace& all) const;
  void take_what_clients_say(const messages::shard_report& shard);
  void measure_straggling(const messages::shard_report& shard);
  /// What each computes within so many seconds, within its limits, over `batches`.
  void batches_within(double seconds, const pace& all, std::vector<std::uint32_t>& batches) const;
  double measure_progress(const messages::shard_report& shard) const;
  /// As even as it may be with the same total and no longer a step.
  std::vector<std::uint32_t> spread_evenly(std::vector<std::uint32_t> batches, const pace& all) const;
  /// With the same total, no further from equal shares than hosts differ at these, where 40 % of a step grow with the
  /// batch.
  std::vector<std::uint32_t> bring_together(std::vector<std::uint32_t> batches, const pace& all) const;
  double least_gain(const batch_plan& plan) const;

  cluster::batch limits_;
  cluster::learning_rate_rule rule_;
  std::uint32_t base_workers_;
  worker_memory<memory> memories_;
  double exchange_seconds_ = -1; ///< moving mean; negative while not measured
  bool work_moves_ = false;      ///< workers have told of their pace, so they move work
  double straggling_ = 0;        ///< logarithm; moving mean
  double noise_scale_ = -1;
  bool early_ = false;
  double noise_error_ = 0;
  double mean_noise_scale_ = -1;
  /// The largest global batch that has run, in the windows that are remembered. What workers have run who have gone, or
  /// the same ones long ago, is no measure of what may be tried next.
  struct largest {
    std::uint64_t now = 0; ///< what has run in the newest window
    std::uint64_t newest = 0;
    std::uint64_t before = 0;  ///< of the stretch of windows before
    std::uint32_t windows = 0; ///< of the newest stretch
  };
  largest largest_run_;
  std::uint64_t generation_ = 0;
  std::uint64_t told_base_ = 0;
  // Of the window at hand.
  std::vector<worker_now> now_;
  std::vector<std::uint32_t> highest_;
  double progress_ = 0;
  mutable std::optional<batch_plan> best_;
};

} // namespace dynamix::policy
