#pragma once

/// What a worker's reports come to, each window once: folded as they are read. Pure.

#include "ledger/rows.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

namespace dynamix::ledger {

/// Of the report's steps, those that its times are the means of. 0: the times are not known, as where `exec --observe`
/// has not had the time to look at any.
inline std::uint32_t timed_steps(const messages::training_statistics& training) {
  return training.iteration_seconds > 0 ? training.steps - std::min(training.steps, training.untimed_steps) : 0;
}

/// One worker over the whole run. Times are means over its timed steps.
struct worker_summary {
  std::string host;
  std::uint32_t rank = 0;
  double compute_slowdown = 1; ///< at the start
  bool slowdown_changes = false;
  std::uint32_t first_batch = 0;
  std::uint32_t last_batch = 0;
  double mean_batch = 0; ///< samples per step
  std::uint64_t samples = 0;
  double steps = 0;       ///< that its reports tell of
  double timed_steps = 0; ///< of them; 0: no time is known
  double share = 0;       ///< of all workers' samples, [0, 1]
  double step_seconds = 0;
  double compute_seconds = 0;
  double exchange_seconds = 0;
  double data_seconds = 0;
  policy::time_split time; ///< what held a step up
  /// Of its computing, when no CPU was free for it; nothing: no window with timed steps has measured it.
  std::optional<double> cpu_wait_share;
  double moved_samples = 0;        ///< that traces moved to it, less those they moved away
  std::uint64_t speed_changes = 0; ///< that it found itself
};

/// Whether the ledger attributes the step's time: older ones do not.
inline bool is_known(const policy::time_split& time) {
  return time.compute_seconds + time.cpu_wait_seconds + time.network_seconds + time.barrier_seconds > 0;
}

/// Adds `count` steps of `each` to `total`.
void add_steps(policy::time_split& total, const policy::time_split& each, double count);

/// Adds a report's samples, steps and, for each of its timed steps, times to the sums.
void add_training(worker_summary& sums, const messages::training_statistics& training);

class worker_course {
public:
  /// By windows; one that was reported before is counted once: a report that stood in for a late one, or that was
  /// trained again after a resume.
  void add(const ledger::worker& row);

  std::uint64_t reports() const { return reports_; }
  std::uint32_t lowest_batch() const { return lowest_batch_; }
  std::uint32_t highest_batch() const { return highest_batch_; }
  std::uint32_t last_batch() const { return sums_.last_batch; }
  /// Reports with the last batch size, since there was another.
  std::uint64_t same_batch() const { return same_batch_; }
  double elapsed_seconds() const { return elapsed_seconds_; }
  /// Of the run, at the last report.
  std::uint64_t steps_done() const { return steps_done_; }
  /// Adds batch sizes, samples, steps and means to what is known of the worker.
  void describe(worker_summary& worker) const;

private:
  std::optional<std::uint64_t> window_; ///< the newest
  std::uint64_t reports_ = 0;
  std::uint64_t same_batch_ = 0;
  std::uint32_t lowest_batch_ = 0;
  std::uint32_t highest_batch_ = 0;
  double elapsed_seconds_ = 0;
  std::uint64_t steps_done_ = 0;
  worker_summary sums_; ///< times: over all steps
  double split_steps_ = 0;
  double waited_seconds_ = 0; ///< while computing, in the windows that measured it
  double waiting_or_computing_seconds_ = 0;
};

} // namespace dynamix::ledger
