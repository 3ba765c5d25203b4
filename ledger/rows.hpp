#pragma once

/// The ledger of a run, `windows.jsonl`: one JSON object a line, in the order of events, written by the arbitrator. A
/// run can be followed, explained and summed up from it alone. Includes no CAF.

#include "messages/types.hpp"
#include "policy/judged_window.hpp"

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace dynamix::ledger {

/// First line of every arbitrator's life. "kind": "start"
struct start {
  std::string cluster;
  std::string policy;
  std::string mode;
  std::uint64_t seed = 0;
  std::uint32_t window_steps = 0;
  std::uint64_t dataset_samples = 0; ///< of one epoch
  double epochs = 0;                 ///< planned
  double target_accuracy = 0;
  std::vector<std::string> workers; ///< by rank
  std::vector<std::string> state_fields;
  std::vector<std::int32_t> actions;
  std::vector<std::int32_t> scales; ///< of ppo, whose actions they make (policy/planned_actions.hpp)
  std::string started_at;           ///< UTC, ISO 8601
  std::string version;              ///< of the program
  double origin_seconds = 0;        ///< the host's monotonic clock where `at_seconds` is 0
  std::string clock;                ///< which clock that is (telemetry/trace_file.hpp)
};

/// "kind": "window"
using window = policy::judged_window;
using worker = policy::judged_worker;

/// "kind": "evaluation"
struct evaluation {
  messages::evaluation_report report;
};

/// "kind": "policy": the learner published a version.
struct policy_version {
  std::uint64_t version = 0;
  double policy_loss = 0;
  double value_loss = 0;
  double entropy = 0;
  double approximate_kl = 0;
  double clip_fraction = 0;
  std::string parameters; ///< digest (policy/parameter_archive.hpp)
};

/// "kind": "deciding": an arbitrator begins to decide, with nothing measured: at the start, when it was restarted, when
/// it took the lead. What follows up to the next such row can be decided again from it.
struct deciding {
  std::string cluster_digest; ///< of the resolved cluster file, hexadecimal
  std::string parameters;     ///< digest of those that it begins with; empty: fresh ones from the seed, or none
};

/// "kind": "generation": a new set of workers goes on.
struct generation {
  std::uint64_t generation = 0;
  std::vector<std::string> members; ///< by rank
  std::string source;               ///< whose state all start from
  std::string reason;               ///< the generation before ended for; empty for the first
  std::uint64_t steps = 0;          ///< that it starts from
  std::uint64_t steps_lost = 0;     ///< tried or completed before, and done again
};

/// "kind": "event": joined, rejoined, refused, lost, ending, regrouping, resumed, leader, restarted, telemetry, warning
struct event {
  std::string event;
  std::string host; ///< empty: the arbitrator's own
  std::string text;
};

/// "kind": "farewell"
struct farewell {
  messages::farewell farewell;
};

/// "kind": "shard": an arbitrator of a tree of them. The newest row of a name holds.
struct shard {
  std::string name;          ///< of the host that it runs on
  std::string parent;        ///< empty: it is the root
  std::uint32_t level = 0;   ///< 0: the root
  std::uint32_t workers = 0; ///< below it
  std::string state;         ///< up, late, lost, ended
};

using entry = std::variant<start, window, evaluation, policy_version, generation, event, farewell, shard, deciding>;

/// One line of the ledger; `at_seconds` is the arbitrator's monotonic time since its start.
struct row {
  double at_seconds = 0;
  ledger::entry entry;
};

} // namespace dynamix::ledger
