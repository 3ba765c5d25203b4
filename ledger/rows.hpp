#pragma once

/// The ledger of a run, `windows.jsonl`: one JSON object per line, in the order of events, written by the arbitrator. A
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
  /// How gradients travel between workers: "encrypted" and "clear" between hosts with keys (security.data), "without
  /// keys". Empty: this program moves none.
  std::string gradients;
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

/// "kind": "tree", behind its window's: by what the shards of a tree decided the window, and what its root made of it.
struct tree {
  messages::guidance known;                      ///< that went to all shards
  std::vector<messages::shard_account> accounts; ///< of the shards that decided it, as they arrived
  std::vector<std::int32_t> votes;               ///< the policy's action for each of the window's workers; -1: none
  std::string untrained;                         ///< what the first shard with a word on it found of the states
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

enum class event_kind : std::uint8_t {
  unknown, ///< of another version
  joined,
  rejoined,
  refused,
  lost,       ///< contact with the host
  ending,     ///< the generation, since somebody is lost
  regrouping, ///< the generation, since somebody comes or goes
  resumed,    ///< training, in a new generation
  leader,     ///< of the replicas
  follows,
  left, ///< in order
  restarted,
  telemetry, ///< what the host measures with
  warning,
  simulated, ///< by `simulate`: there are no hosts
  exchange,  ///< who sums gradients, and in which form
};

/// "kind": "event"
struct event {
  event_kind event = event_kind::unknown;
  std::string host; ///< empty: the arbitrator's own
  std::string text;
};

/// "kind": "farewell"
struct farewell {
  messages::farewell farewell;
};

enum class shard_state : std::uint8_t { unknown, up, late, lost, ended, standby };

/// "kind": "shard": an arbitrator of a tree of them. The newest row of a name holds.
struct shard {
  std::string name;          ///< of the host that it runs on
  std::string parent;        ///< empty: it is the root
  std::uint32_t level = 0;   ///< 0: the root
  std::uint32_t workers = 0; ///< below it
  shard_state state = shard_state::unknown;
};

using entry =
    std::variant<start, window, evaluation, policy_version, generation, event, farewell, shard, deciding, tree>;

/// One line of the ledger; `at_seconds` is the arbitrator's monotonic time since its start.
struct row {
  double at_seconds = 0;
  ledger::entry entry;
};

} // namespace dynamix::ledger

// As the ledger has them (messages::name_of, messages::from_name).
template <>
struct dynamix::messages::names_of<dynamix::ledger::event_kind> {
  static constexpr named_value<ledger::event_kind> table[] = {
      {ledger::event_kind::unknown, "unknown"},
      {ledger::event_kind::joined, "joined"},
      {ledger::event_kind::rejoined, "rejoined"},
      {ledger::event_kind::refused, "refused"},
      {ledger::event_kind::lost, "lost"},
      {ledger::event_kind::ending, "ending"},
      {ledger::event_kind::regrouping, "regrouping"},
      {ledger::event_kind::resumed, "resumed"},
      {ledger::event_kind::leader, "leader"},
      {ledger::event_kind::follows, "follows"},
      {ledger::event_kind::left, "left"},
      {ledger::event_kind::restarted, "restarted"},
      {ledger::event_kind::telemetry, "telemetry"},
      {ledger::event_kind::warning, "warning"},
      {ledger::event_kind::simulated, "simulated"},
      {ledger::event_kind::exchange, "exchange"},
  };
};

template <>
struct dynamix::messages::names_of<dynamix::ledger::shard_state> {
  static constexpr named_value<ledger::shard_state> table[] = {
      {ledger::shard_state::unknown, "unknown"}, {ledger::shard_state::up, "up"},
      {ledger::shard_state::late, "late"},       {ledger::shard_state::lost, "lost"},
      {ledger::shard_state::ended, "ended"},     {ledger::shard_state::standby, "standby"},
  };
};
