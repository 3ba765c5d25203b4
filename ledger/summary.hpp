#pragma once

/// What came of a run: summary.json, epochs.csv, and the tables that a person reads. Pure.

#include "ledger/run.hpp"
#include "ledger/worker_course.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace dynamix::ledger {

/// What a run has written about itself: the fold of its ledger, and what its workers' own files say besides.
struct run_records {
  explicit run_records(cluster::cluster_file of = {}) : file(std::move(of)), run(file) {}

  cluster::cluster_file file;
  ledger::run run;
  std::vector<messages::farewell> farewells;            ///< from the workers' files, else from the ledger
  std::vector<messages::evaluation_report> evaluations; ///< by step; from the ledger and the workers' files
};

/// Decisions for the workers' last lives, counted at the arbitrator (made) and at the workers (the rest).
struct decision_summary {
  std::uint64_t made = 0;
  std::uint64_t applied = 0;
  std::uint64_t late = 0; ///< among the applied
  std::uint64_t superseded = 0;
  std::uint64_t unapplied = 0; ///< training ended first
  std::uint64_t stale_refused = 0;
  std::uint64_t duplicated = 0;
  /// Never received, since the worker's connection or generation, or the arbitrator, ended while they were on their
  /// way.
  std::uint64_t unapplied_by_loss = 0;
  std::map<std::string, std::uint64_t>
      losses;                      ///< the same by what ended: "worker", "generation", "arbitrator", "leave"
  std::uint64_t lost = 0;          ///< all others that were made for workers that said farewell, and never received
  std::uint64_t windows = 0;       ///< decided on
  std::uint64_t interventions = 0; ///< windows among them in which the guard stepped in
  std::uint64_t moves = 0;         ///< steps after which the workers' traces changed batch sizes
};

/// The reason of a run of which no worker has told the end.
inline constexpr auto no_farewell = "it goes on, or was cut short: no worker has said farewell";

struct run_summary {
  std::string cluster;
  std::string policy;
  std::string mode;
  std::uint64_t seed = 0;
  bool told = false; ///< by a worker's farewell; else figures are as of the last window, and nobody knows what became
                     ///< of decisions
  bool goes_on = false; ///< or was cut short: nobody has told its end, which is no failure yet
  bool succeeded = false;
  bool completed = false; ///< training came to its end; one that was stopped in order has succeeded, too
  std::string reason;
  std::string started_at;
  std::vector<std::string> gradients; ///< how they travelled (ledger::start), of each life that went about it otherwise
  double wall_seconds = 0;            ///< of training
  std::uint64_t steps = 0;
  std::uint64_t samples = 0;
  std::uint64_t epochs = 0; ///< completed
  double final_accuracy = 0;
  double target_accuracy = 0;
  double seconds_to_target = -1; ///< negative if never
  decision_summary decisions;
  std::uint64_t generations = 0;
  std::uint64_t steps_lost = 0; ///< tried or completed, and done again after a loss
  /// Dealt and not trained, or trained twice, by the sampler's place in the last window; nothing: it was not recorded.
  std::optional<std::uint64_t> samples_dropped;
  std::optional<std::uint64_t> samples_repeated;
  std::vector<std::string> left; ///< hosts that left in order before the end, and did not come back
  std::uint64_t restarts = 0;    ///< of actors and of hosts' processes
  std::map<std::string, std::uint64_t> restarts_by_host; ///< of processes, as far as they were watched
  double control_fraction = 0;
  double telemetry_fraction = 0;  ///< CPU time of measuring over training time, programs in the kernel included
  policy::time_split attribution; ///< of all workers' steps together: worker-seconds
  std::uint64_t policy_version = 0;
  std::vector<worker_summary> workers;
  std::vector<std::string> warnings;
};

/// What whoever watched the run knows, and its records do not.
struct run_observations {
  std::vector<std::string> warnings;             ///< come first
  std::map<std::string, std::uint64_t> restarts; ///< of hosts' processes
  std::set<std::string> given_up;                ///< hosts that the run went on without
};

/// What its host's entry in the cluster file says of a worker.
worker_summary describe_worker(const cluster::host& host);
/// One worker over what `run` has seen; `share` is left to whoever knows the others.
worker_summary summarise_worker(const ledger::run& run, const cluster::host& host);

run_summary summarise(const run_records& records, run_observations observed = {});

std::string to_json(const run_summary& summary);
/// epoch,step,samples,seconds,train_loss,test_loss,test_accuracy,global_batch,learning_rate
std::string epochs_csv(const std::vector<messages::evaluation_report>& evaluations);

} // namespace dynamix::ledger
