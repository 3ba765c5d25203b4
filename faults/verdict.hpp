#pragma once

/// What a run under faults is worth. Pure.

#include "faults/decision_history.hpp"
#include "faults/plan.hpp"
#include "faults/recovery.hpp"
#include "ledger/rows.hpp"
#include "storage/percentiles.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace dynamix::faults {

/// A process that lived through faults.
struct process_growth {
  std::string host;
  std::uint64_t faults = 0; ///< that began in its life
  double memory_mib = 0;    ///< resident at the end, less that at the beginning
  std::int64_t descriptors = 0;
};

/// The run as its summary and its processes tell it.
struct run_figures {
  bool succeeded = false;
  std::string reason;
  std::uint64_t decisions_made = 0;
  std::uint64_t decisions_applied = 0;
  std::uint64_t decisions_lost = 0;
  std::uint64_t decisions_duplicated = 0;
  std::uint64_t stale_refused = 0;
  std::uint64_t unapplied_by_loss = 0;
  std::map<std::string, std::uint64_t> losses; ///< the same by what ended
  std::vector<std::string> left;               ///< hosts that somebody asked to end, and that left in order
  std::uint64_t steps = 0;
  std::uint64_t samples = 0;
  std::optional<std::uint64_t> samples_dropped; ///< nothing: unknown
  std::optional<std::uint64_t> samples_repeated;
  double final_accuracy = 0;
  double unharmed_accuracy = -1; ///< negative: not compared
  double unharmed_seconds = -1;
  double seconds = 0;
  std::vector<process_growth> growth;
  std::vector<std::string> complaints; ///< of the scripts that trained, and of the plan's check
  bool plan_done = true;               ///< every fault of the plan has begun
  bool interrupted = false;            ///< a stop was asked for: what is judged is what has happened until then
  double end_seconds = 0;              ///< of training, from its beginning
};

struct kind_verdict {
  fault_kind kind = fault_kind::kill;
  std::uint64_t injected = 0;
  std::uint64_t bit = 0;
  std::uint64_t recovered = 0;
  /// Nothing: scripts trained. They go on while their agents form a generation, which counts those steps as lost.
  std::optional<std::uint64_t> steps_lost;
  // Of seconds.
  storage::percentiles detection; ///< from the beginning to the ledger's word
  storage::percentiles resumption;
  storage::percentiles recovery; ///< from the end of the fault to its target's return
};

struct verdict {
  bool clean = false;               ///< never of a run that was interrupted
  std::vector<std::string> reasons; ///< why it is not
  std::vector<kind_verdict> kinds;  ///< in the kinds' order
  kind_verdict all;
  std::uint64_t decided_twice = 0; ///< windows of a term
  std::uint64_t old_terms = 0;     ///< windows that were decided in a term before the newest
  std::uint64_t two_leaders = 0;   ///< terms that two hosts claimed
  decision_history history;
  std::vector<std::string> without_effect;
  run_figures figures;
};

verdict judge(const fault_plan& plan, const std::vector<fault_record>& records, const std::vector<ledger::row>& rows,
              const run_figures& figures);

/// A table and a line of judgement, for a terminal.
std::string to_text(const verdict& judged);
/// The value of "faults" in summary.json, with every fault.
std::string to_json(const verdict& judged, const fault_plan& plan, const std::vector<fault_record>& records);

} // namespace dynamix::faults
