#pragma once

/// What a comparison keeps of one run, live or simulated. Pure.

#include "cluster/cluster_file.hpp"
#include "ledger/rows.hpp"
#include "ledger/worker_course.hpp"
#include "node/reports/window_series.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace dynamix::ledger {
struct run_summary;
}

namespace dynamix::node {

struct run_records;

/// A run's course, thinned for charts.
struct run_series {
  std::vector<double> accuracy_seconds;
  std::vector<double> accuracy; ///< of the test set, [0, 1]
  std::vector<double> batch_seconds;
  std::vector<std::string> batch_names;     ///< workers; of more than 8: "highest", "median", "lowest"; by rank
  std::vector<std::vector<double>> batches; ///< [name][time]; NaN where the worker was not there
  window_series windows;
};

struct run_outcome {
  std::uint64_t fingerprint = 0; ///< of all that the run was made from
  std::string policy;
  std::uint32_t static_batch = 0; ///< of static-best; else 0
  std::uint64_t seed = 0;
  std::string failure; ///< empty: the run came to its end
  double seconds = 0;
  double seconds_to_target = -1; ///< negative if never
  double final_accuracy = 0;
  std::uint64_t samples = 0;
  std::uint64_t windows = 0;           ///< decided on: all but the last
  std::uint64_t decisions = 0;         ///< made, one a worker and window
  std::uint64_t changes = 0;           ///< that changed a batch size
  std::uint64_t interventions = 0;     ///< windows in which the guard overrode the policy
  double reward = 0;                   ///< mean of all workers' windows
  std::vector<double> episode_rewards; ///< the same of each episode, where the run is the last of several
  // Means over all timed steps of all workers.
  double compute_seconds = 0;
  double exchange_seconds = 0;
  double data_seconds = 0;
  run_series series;

  bool reached() const { return failure.empty() && seconds_to_target >= 0; }
  double samples_per_second() const { return seconds > 0 ? static_cast<double>(samples) / seconds : 0; }
};

std::string to_json(const run_outcome& outcome);
/// Nothing for a text that is torn or not ours.
std::optional<run_outcome> parse_outcome(const std::string& text);

/// A series of any length as at most `limit` evenly spread rows and the last.
class thinned_rows {
public:
  explicit thinned_rows(std::size_t limit) : limit_(limit) {}
  void add(std::vector<double> row);
  std::vector<std::vector<double>> rows() const;

private:
  std::size_t limit_;
  std::size_t stride_ = 1;
  std::size_t count_ = 0;
  std::vector<std::vector<double>> kept_;
  std::vector<double> last_;
};

/// Sums a run up window by window, in bounded memory.
class run_recorder {
public:
  static constexpr std::size_t points_most = 400;
  static constexpr std::size_t workers_drawn = 8;

  explicit run_recorder(const cluster::cluster_file& file);
  void add(const ledger::window& window);
  void add_accuracy(double seconds, double accuracy) { accuracies_.add({seconds, accuracy}); }

  /// Windows, decisions, interventions, step times and series; the rest is the caller's.
  run_outcome outcome() const;
  /// By rank; a place of an open cluster that several hosts have had goes by the newest, and tells of all of them.
  std::vector<ledger::worker_summary> workers() const;

private:
  struct worker_totals {
    ledger::worker_summary summary; ///< times: over all timed steps
    bool place = false;             ///< of an open cluster: whose it is, the reports say
    std::size_t hosts = 1;          ///< that have had it
    double batch = 0;               ///< in the newest window; NaN: not there
  };
  /// Null for a host that has no place.
  worker_totals* find(const messages::window_report& report);
  void add_batches(double seconds);
  /// The workers of the file and the places that somebody has had.
  std::vector<const worker_totals*> seen() const;

  std::vector<worker_totals> workers_;       ///< by rank
  std::map<std::string, std::size_t> ranks_; ///< of the hosts that have one now
  thinned_rows batches_{points_most};
  thinned_rows windows_kept_{points_most};
  window_columns columns_;
  thinned_rows accuracies_{points_most};
  std::uint64_t windows_ = 0;
  std::uint64_t decisions_ = 0;
  std::uint64_t changes_ = 0;
  std::uint64_t interventions_ = 0;
  double rewards_ = 0;
  double rewarded_ = 0;
};

/// The outcome of a live run. The fingerprint is the caller's.
run_outcome outcome_of(const run_records& records, const ledger::run_summary& summary);

} // namespace dynamix::node
