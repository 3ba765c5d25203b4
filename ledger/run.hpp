#pragma once

/// A run as far as its ledger tells, in bounded memory: the one fold of ledger rows. The live page, the reports, the
/// progress line and the accounts at the end all read it. What is asked for most often is kept, the past is thinned.
/// Knows no clock, no thread and no socket.

#include "cluster/cluster_file.hpp"
#include "ledger/counted_reports.hpp"
#include "ledger/decision_count.hpp"
#include "ledger/equal_batches.hpp"
#include "ledger/progress.hpp"
#include "ledger/rows.hpp"
#include "ledger/run_course.hpp"
#include "ledger/sample_count.hpp"
#include "ledger/worker_course.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dynamix::ledger {

// Limits on what is kept, whatever the ledger holds.
inline constexpr std::size_t marks_kept = 256;
inline constexpr std::size_t events_kept = 200;
inline constexpr std::size_t warnings_kept = 20;
inline constexpr std::size_t starts_kept = 64;
inline constexpr std::size_t guard_causes_kept = 64;
inline constexpr std::size_t shards_kept = 4096;
inline constexpr std::size_t text_bytes_kept = 300;

enum class worker_state : std::uint8_t { waiting, training, lost, ended };
inline constexpr std::array<std::string_view, 4> worker_state_names = {"waiting", "training", "lost", "ended"};

/// A worker as of its last report.
struct live_worker {
  std::string name;
  worker_state state = worker_state::waiting;
  std::uint32_t batch_lowest = 0;
  std::uint32_t batch_highest = 0; ///< of the cluster file
  bool reported = false;
  bool stale = false; ///< in the newest window an older report stood in
  messages::window_report report;
  time_parts parts{};
  double samples_per_second = 0;
  double reward = 0;
  std::uint32_t decided_batch = 0;
  std::string intervention; ///< why the guard stepped in at the last decision; empty: it did not
  worker_course course;     ///< each window once
  // Since the ledger began, steps included that were done again.
  std::uint64_t samples = 0;
  std::uint64_t stale_reports = 0;
  std::uint64_t retransmissions = 0;
  double training_seconds = 0;
  double telemetry_seconds = 0;
  double control_seconds = 0;

  /// The most that it takes: by the cluster file, and by what its script allows or its memory was found to hold.
  std::uint32_t limit() const {
    return report.highest_batch == 0 ? batch_highest : std::min(batch_highest, report.highest_batch);
  }
};

enum class mark_kind : std::uint8_t { generation, fault, back, leader, arbitrator };
inline constexpr std::array<std::string_view, 5> mark_names = {"generation", "fault", "back", "leader", "arbitrator"};

/// Something that a chart shows as a line across.
struct mark {
  double elapsed_seconds = 0;
  double samples = 0;
  mark_kind kind = mark_kind::generation;
  std::string text;
};

struct live_event {
  double at_seconds = 0; ///< of the arbitrator's life
  double elapsed_seconds = 0;
  std::string_view event; ///< a name of event_kind, "generation" or "farewell"
  std::string host;
  std::string text;
};

/// Counts below rising bounds, as Prometheus keeps them.
struct duration_histogram {
  static constexpr std::array<double, 10> bounds = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.5};
  std::array<std::uint64_t, bounds.size() + 1> counts{};
  double sum = 0;
  void add(double seconds);
};

struct run_totals {
  std::uint64_t rows = 0;
  std::uint64_t lives = 0; ///< of an arbitrator
  std::uint64_t windows = 0;
  std::uint64_t decided_windows = 0;
  std::uint64_t decisions = 0;
  std::uint64_t intervened_windows = 0; ///< in which the guard stepped in
  std::uint64_t reports = 0;            ///< in windows, those that stood in for late ones included
  std::uint64_t stale_reports = 0;      ///< which those were
  std::uint64_t samples = 0;
  std::uint64_t moves = 0; ///< steps after which traces changed batch sizes
  std::uint64_t generations = 0;
  std::uint64_t steps_lost = 0;
  std::map<std::string_view, std::uint64_t> events;  ///< by name
  std::map<std::string, std::uint64_t> lost;         ///< times that contact was lost, by host
  std::map<std::string, std::uint64_t> guard_causes; ///< interventions in workers' windows, by reason
  duration_histogram gather;
  duration_histogram decide;
};

class run {
public:
  explicit run(const cluster::cluster_file& file);

  void add(const ledger::row& row);

  const cluster::cluster_file& file() const { return file_; }
  const ledger::start& start() const { return start_; }                ///< of the newest life
  const std::vector<ledger::start>& starts() const { return starts_; } ///< the first ones
  /// By rank; of an open cluster up to the last place that somebody has had.
  const std::vector<live_worker>& workers() const { return workers_; }
  const live_worker* find_worker(const std::string& name) const;
  const run_course& course() const { return course_; }           ///< over time
  std::vector<double> batches_of(const std::string& name) const; ///< a worker's, over time, thinned
  const std::deque<mark>& marks() const { return marks_; }
  const std::deque<live_event>& events() const { return events_; }
  const std::deque<std::string>& warnings() const { return warnings_; } ///< that somebody wrote into the ledger
  const std::deque<messages::evaluation_report>& evaluations() const { return evaluations_; }
  const ledger::policy_version& policy() const { return policy_; }
  const std::map<std::string, ledger::shard>& shards() const { return shards_; }
  /// The last word of each worker's newest process.
  const std::map<std::string, messages::farewell>& farewells() const { return farewells_; }
  /// Hosts that left in order, said so in the ledger, and are not back.
  const std::set<std::string>& left() const { return left_; }
  const run_totals& totals() const { return totals_; }
  const recent_means& recent() const { return recent_; }
  const ledger::progress& progress() const { return progress_; } ///< of the newest life
  const decision_count& decisions() const { return decisions_; }
  const sample_count& samples() const { return samples_; }
  const batch_gain& gain() const { return equal_batches_.newest(); } ///< over equal batches, in the newest window
  std::size_t choices() const { return choices_; }      ///< of the policy: probabilities of a worker's newest decision
  const std::string& leader() const { return leader_; } ///< of the replicas; empty: none, or not told yet
  std::uint64_t window() const { return window_; }
  std::uint64_t term() const { return term_; }
  std::uint64_t generation() const { return generation_; }
  std::uint64_t policy_version() const { return policy_version_; }
  double at_seconds() const { return at_seconds_; } ///< of the newest row
  bool ended() const { return !ending_.empty(); }
  const std::string& ending() const { return ending_; } ///< the reason that the workers gave
  /// It has ended, and some worker said that it went well, or all have left in order.
  bool ended_well() const;

private:
  void take(const ledger::start& start);
  void take(const ledger::window& window);
  void take(const ledger::evaluation& evaluation);
  void take(const ledger::policy_version& policy);
  void take(const ledger::generation& generation);
  void take(const ledger::event& event);
  void take(const ledger::farewell& farewell);
  void take(const ledger::shard& shard);
  void take(const ledger::deciding&) {} // of use to a replay alone, as the next
  void take(const ledger::tree&) {}
  void take(const ledger::worker& judged);
  bool is_told_again(const ledger::window& window) const;
  live_worker* find(const std::string& name);
  void seat(const std::string& host, std::uint32_t rank);
  void come_back(const std::string& host);
  void count_generation(std::uint64_t generation);
  void note(mark_kind kind, const std::string& text);
  void note_event(std::string_view event, const std::string& host, const std::string& text);

  cluster::cluster_file file_;
  ledger::start start_;
  std::vector<ledger::start> starts_;
  bool begun_ = false; ///< something has happened since the newest start
  std::vector<live_worker> workers_;
  std::map<std::string, std::size_t> rank_of_;
  run_course course_;
  std::deque<mark> marks_;
  std::deque<live_event> events_;
  std::deque<std::string> warnings_;
  std::deque<messages::evaluation_report> evaluations_;
  ledger::policy_version policy_;
  std::map<std::string, ledger::shard> shards_;
  std::map<std::string, messages::farewell> farewells_;
  std::set<std::string> left_;
  counted_reports counted_; ///< in the workers' sums
  run_totals totals_;
  recent_means recent_;
  ledger::progress progress_;
  decision_count decisions_;
  sample_count samples_;
  equal_batches equal_batches_;
  std::size_t choices_ = 0;
  std::string leader_;
  std::string ending_;
  std::uint64_t window_ = 0;
  std::uint64_t term_ = 0;
  std::uint64_t generation_ = 0;
  std::uint64_t life_generation_ = 0; ///< the newest of this life
  std::uint64_t policy_version_ = 0;
  double at_seconds_ = 0;
};

} // namespace dynamix::ledger
