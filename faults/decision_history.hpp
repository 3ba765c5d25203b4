#pragma once

/// Whether one order explains what was decided and what all workers had in force, as the ledger tells it: whether the
/// decisions of a run are linearisable. Pure.
///
/// The members of a generation train in lock-step, so its steps are the clock. A report reads what was in force after
/// the last step of its window; a decision is written at some time after the window on which it was decided. All reads
/// thus have an order, and the writes fit into it exactly if
///
///   1. whoever reads after the same step reads the same;
///   2. no decision is read before its window has ended;
///   3. none is read after a newer one, so each is in force without a break;
///   4. the batch sizes that are read are in sum those that were decided, which sharing by paces leaves as it is; or
///      more, where no other decision has come for some windows: a global batch below the one that training began with
///      then grows back to it (session/undecided.hpp). Not under `stigmergic`, whose workers choose it by themselves.
///
/// The group of scripts is their own affair: one of them dies or comes, and the others share their batch sizes anew in
/// mid-generation of their agents, with no decision in force until they agree on the next one (client/lockstep's
/// `regroup`). So of scripts, who has none in force contradicts nobody, and the sum may be less than was decided: who
/// is gone from the group has a share of the decision, and no samples. It may be more where members have no agent: they
/// keep their batches, and the decision is for the others.
///
/// A generation begins with what its source had in force. A decision in no row was made by an arbitrator that died
/// before it wrote the row, or by a shard without a root: whoever first reads it stands for it.

#include "ledger/rows.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace dynamix::faults {

struct decision_history {
  std::uint64_t decisions = 0; ///< in rows, one a window
  std::uint64_t reads = 0;     ///< of reports that came in time, one a worker and window
  std::uint64_t unwritten = 0; ///< decisions that were read and stand in no row
  std::string violation;       ///< the first, by generation and step; empty: they are linearisable
};

enum class trained_by : std::uint8_t { agents, scripts };

decision_history check_decisions(const std::vector<ledger::row>& rows, trained_by who = trained_by::agents);

} // namespace dynamix::faults
