#pragma once

/// When each fault was found, when training went on and when its target was back, from the rows of the ledger as they
/// appear. Pure.

#include "faults/schedule.hpp"
#include "ledger/rows.hpp"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace dynamix::faults {

/// All seconds count from training's beginning; negative: has not happened.
struct fault_record {
  planned_fault plan;
  double began_seconds = 0;
  double ended_seconds = -1;
  double detected_seconds = -1;  ///< the ledger tells of the loss
  double resumed_seconds = -1;   ///< and of the next completed step
  double recovered_seconds = -1; ///< the fault is over, its targets are back, and a window has closed since
  std::uint64_t steps_lost = 0;
  bool bit = false;
  std::string evidence; ///< that it bit, or why it had no effect

  bool recovered() const { return recovered_seconds >= 0; }
};

class recovery_tracker {
public:
  /// Keeps `file`.
  recovery_tracker(const cluster::cluster_file& file, double recover_seconds_most)
      : file_(file), recover_seconds_most_(recover_seconds_most) {}

  void begin(const planned_fault& fault, double now_seconds);
  void end(std::uint32_t number, double now_seconds);
  void add(const ledger::row& row, double now_seconds);
  /// A fault is not over, or its target is not back yet and has still time to be.
  bool busy(double now_seconds) const;
  std::vector<fault_record>& records() { return records_; }
  const std::vector<fault_record>& records() const { return records_; }

private:
  /// What a fault that has begun still waits for.
  struct waited {
    std::set<std::string> workers;     ///< to be lost, or to come back
    std::set<std::string> arbitrators; ///< to begin a ledger's life again
    std::set<std::string> voters;      ///< of several, to follow a leader again, or to lead
    double back_seconds = -1;          ///< when the last of them came
  };

  void add_event(const ledger::event& event, fault_record& record, waited& open, double now_seconds);
  void add_generation(const ledger::generation& generation, fault_record& record, waited& open, double now_seconds);
  void close_window(fault_record& record, const waited& open, double now_seconds) const;
  void came_back(const std::string& worker, waited& open, double now_seconds) const;
  bool has_role(const std::string& host, cluster::role role) const;
  std::vector<std::string> members_of(const std::vector<std::string>& targets) const;
  bool decides(const std::string& host) const;

  const cluster::cluster_file& file_;
  double recover_seconds_most_;
  std::string leader_; ///< of several arbitrators; empty while unknown
  std::vector<fault_record> records_;
  std::vector<waited> waited_; ///< of each record
};

} // namespace dynamix::faults
