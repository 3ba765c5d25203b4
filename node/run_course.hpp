#pragma once

/// A run's ledger folded row by row into what its summary and its warnings need. It keeps a few numbers a
/// window (some 50 bytes, whatever the number of workers) and nothing of a window's workers beyond sums. Pure.

#include "node/decision_count.hpp"
#include "node/run_outcome.hpp"
#include "node/sample_count.hpp"
#include "node/worker_course.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace dynamix::node {

class run_course {
public:
  explicit run_course(const cluster::cluster_file& file);
  void add(const ledger::row& row);

  /// How learning went, a number a window: means over the workers that it is known of.
  struct learning_curves {
    std::vector<double> rewards;
    std::vector<double> entropy_shares; ///< of that of even odds, [0, 1]
  };
  struct late_reports {
    std::uint64_t reports = 0;
    std::uint64_t stale = 0;
    std::map<std::string, std::uint64_t> by_host;
  };
  struct lives {
    std::uint64_t starts = 0; ///< of an arbitrator
    std::string started_at;
    std::uint64_t generations = 0;
    std::uint64_t steps_lost = 0;
    std::uint64_t actors_restarted = 0;
    std::uint64_t policy_version = 0; ///< the last
  };

  const run_recorder& recorder() const { return recorder_; }
  std::map<std::string, decision_count::made> decisions_made() const { return decisions_.by_host(); }
  const sample_count& samples() const { return samples_; }
  std::uint64_t windows_decided() const { return windows_decided_; }
  std::uint64_t windows_guarded() const { return windows_guarded_; } ///< of those decided
  const std::map<std::string, std::uint64_t>& guard_causes() const { return guard_causes_; }
  const learning_curves& learning() const { return learning_; }
  const late_reports& late() const { return late_; }
  lives life() const;
  /// Nothing where it never reported. By its name: ranks change hands when hosts come and go.
  const worker_course* find_worker(const std::string& host) const;

private:
  void add_window(const ledger::window& window);
  void add_learning(const ledger::window& window);
  void add_life(const ledger::row& row);

  run_recorder recorder_;
  decision_count decisions_;
  sample_count samples_;
  std::map<std::string, worker_course> by_host_;
  std::map<std::string, std::uint64_t> guard_causes_;
  std::uint64_t windows_decided_ = 0;
  std::uint64_t windows_guarded_ = 0;
  learning_curves learning_;
  late_reports late_;
  lives life_;
  bool begun_ = false;                  ///< something has happened since the newest start
  std::set<std::uint64_t> generations_; ///< of the newest life
};

} // namespace dynamix::node
