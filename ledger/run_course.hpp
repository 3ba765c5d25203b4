#pragma once

/// How a run went, window by window, in bounded memory: the signals of all workers, and what each of them did.

#include "ledger/rows.hpp"
#include "ledger/thinned.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace dynamix::ledger {

// Limits on what is kept, whatever the ledger holds.
inline constexpr std::size_t history_rows = 1024;
inline constexpr std::size_t worker_history_cells = 1U << 18; ///< per signal

/// Where a step's time went. `exchange` is what could not be told apart: with an account of the time by its causes it
/// is 0, without one cpu_wait, network and barrier are.
enum class part : std::uint8_t { compute, cpu_wait, network, barrier, exchange, data, other };
inline constexpr std::array<std::string_view, 7> part_names = {"compute",  "cpu_wait", "network", "barrier",
                                                               "exchange", "data",     "other"};
using time_parts = std::array<double, part_names.size()>; ///< seconds per step

/// Columns of the history, one row per window. Means over the workers unless they say otherwise.
enum class signal : std::uint8_t {
  elapsed_seconds, ///< of training; goes on where a resumed run stepped back
  samples,         ///< trained on by all workers
  accuracy,        ///< mean batch accuracy
  loss,
  samples_per_second, ///< of all workers
  step_seconds,
  reward,
  entropy, ///< of the policy, nats
  global_batch,
  noise_scale,
  noise_error, ///< of its natural logarithm
  learning_rate,
  compute, ///< the first of the parts, in their order
  cpu_wait,
  network,
  barrier,
  exchange,
  data,
  other,
  count
};
inline constexpr auto signal_count = static_cast<std::size_t>(signal::count);
inline constexpr std::array<std::string_view, signal_count> signal_names = {
    "elapsed_seconds", "samples",       "accuracy", "loss",         "samples_per_second",
    "step_seconds",    "reward",        "entropy",  "global_batch", "noise_scale",
    "noise_error",     "learning_rate", "compute",  "cpu_wait",     "network",
    "barrier",         "exchange",      "data",     "other"};

time_parts parts_of(const ledger::worker& judged);
double samples_per_second(const messages::training_statistics& training);
bool is_guarded(const ledger::window& window); ///< the guard stepped in

/// Exponential means of what is new, for warnings while the run lives.
struct recent_means {
  double telemetry_share = 0;
  double stale_share = 0;
  double guarded_share = 0;
  std::uint64_t windows = 0; ///< behind them
  void add(const ledger::window& window);
};

class run_course {
public:
  explicit run_course(std::size_t workers);

  /// `rank_of`: hosts that have a place. `epoch_samples`: 0 where that is not known.
  void add(const ledger::window& window, const std::map<std::string, std::size_t>& rank_of,
           std::uint64_t epoch_samples);
  void add(const ledger::policy_version& policy);

  const std::array<float, signal_count>& newest() const { return newest_; }
  float newest(signal which) const { return newest_[static_cast<std::size_t>(which)]; }
  const thinned_table& history() const { return history_; }           ///< a column per signal
  const thinned_table& batches() const { return batches_; }           ///< a row per window, a column per worker
  const thinned_table& work_seconds() const { return work_seconds_; } ///< likewise: compute and data, no waiting
  const thinned_table& policies() const { return policies_; } ///< elapsed_seconds, entropy, approximate_kl a row
  double skipped_seconds() const { return skipped_seconds_; } ///< that a resumed run stepped back by
  double accuracy_of(const messages::window_report& report) const; ///< NaN where nobody reports them

private:
  void summarise(const ledger::window& window, const std::map<std::string, std::size_t>& rank_of,
                 std::uint64_t epoch_samples);

  thinned_table history_;
  thinned_table batches_;
  thinned_table work_seconds_;
  thinned_table policies_;
  std::array<float, signal_count> newest_{};
  double trained_samples_ = 0;  ///< in all windows
  double reported_seconds_ = 0; ///< as the newest report tells them
  double skipped_seconds_ = 0;
  bool any_accuracy_ = false; ///< a training process need not report them: until one has, zeros are unknown
};

} // namespace dynamix::ledger
