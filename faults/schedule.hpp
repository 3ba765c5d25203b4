#pragma once

/// Which faults begin and end, and whom they hit: a function of the plan, the seed and what has been seen. Pure.

#include "faults/plan.hpp"
#include "storage/splitmix64.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace dynamix::faults {

struct planned_fault {
  std::uint32_t number = 0; ///< from 1, in the order of their beginnings
  fault_kind kind = fault_kind::kill;
  std::vector<std::string> hosts; ///< whom it hits, at least one
  double start_seconds = 0;
  double end_seconds = 0; ///< the same where it has no duration
  fault_rule rule;
};

/// The run as far as it is known.
struct moment {
  double seconds = 0; ///< since training began
  std::uint64_t step = 0;
  std::uint64_t window = 0;
  std::string leader; ///< the arbitrator that decides
  bool busy = false;  ///< a fault is not recovered from
};

class schedule {
public:
  /// Keeps `file`, which has the hosts that join.
  schedule(const fault_plan& plan, const cluster::cluster_file& file);

  struct changes {
    std::vector<planned_fault> begin;
    std::vector<planned_fault> end;
  };
  /// To be asked with seconds that do not fall.
  changes at(const moment& now);
  /// Every fault of the plan has begun, but for those without end.
  bool done() const;
  /// Every fault has begun, ended and been recovered from, so long ago that training is to end.
  bool over(double now_seconds) const;

private:
  struct random_source {
    storage::splitmix64 words;
    double uniform(); ///< (0, 1]
    std::size_t below(std::size_t count) { return static_cast<std::size_t>(words.next() % count); }
  };
  struct rule_state {
    fault_rule rule;
    random_source random;
    std::uint32_t begun = 0;
    double next_seconds = -1; ///< of the next occurrence; negative: its trigger has not come
  };

  bool is_due(rule_state& of, const moment& now) const;
  planned_fault begin(rule_state& of, const moment& now);
  std::vector<std::string> resolve(rule_state& of, const std::string& leader) const;
  double gap_seconds(rule_state& of) const;

  const cluster::cluster_file& file_;
  bool one_at_a_time_;
  double settle_seconds_;
  double after_last_seconds_; ///< negative: training does not end with the faults
  double free_since_seconds_ = 0;
  std::uint32_t count_ = 0;
  std::vector<rule_state> rules_;
  std::vector<planned_fault> active_;
};

} // namespace dynamix::faults
