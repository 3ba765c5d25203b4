#pragma once

/// The ledger of a run, `windows.jsonl`: one JSON object a line, in the order of events, written by the arbitrator. A
/// run can be followed, explained and summed up from it alone. Includes no CAF.

#include "messages/types.hpp"
#include "policy/judged_window.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace dynamix::actors {

/// First line of every arbitrator's life. "kind": "start"
struct ledger_start {
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
using ledger_window = policy::judged_window;
using ledger_worker = policy::judged_worker;

/// "kind": "evaluation"
struct ledger_evaluation {
  messages::evaluation_report report;
};

/// "kind": "policy": the learner published a version.
struct ledger_policy {
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
struct ledger_deciding {
  std::string cluster_digest; ///< of the resolved cluster file, hexadecimal
  std::string parameters;     ///< digest of those that it begins with; empty: fresh ones from the seed, or none
};

/// "kind": "generation": a new set of workers goes on.
struct ledger_generation {
  std::uint64_t generation = 0;
  std::vector<std::string> members; ///< by rank
  std::string source;               ///< whose state all start from
  std::string reason;               ///< the generation before ended for; empty for the first
  std::uint64_t steps = 0;          ///< that it starts from
  std::uint64_t steps_lost = 0;     ///< tried or completed before, and done again
};

/// "kind": "event": joined, rejoined, refused, lost, ending, regrouping, resumed, leader, restarted, telemetry, warning
struct ledger_event {
  std::string event;
  std::string host; ///< empty: the arbitrator's own
  std::string text;
};

/// "kind": "farewell"
struct ledger_farewell {
  messages::farewell farewell;
};

/// "kind": "shard": an arbitrator of a tree of them. The newest row of a name holds.
struct ledger_shard {
  std::string name;          ///< of the host that it runs on
  std::string parent;        ///< empty: it is the root
  std::uint32_t level = 0;   ///< 0: the root
  std::uint32_t workers = 0; ///< below it
  std::string state;         ///< up, late, lost, ended
};

using ledger_entry = std::variant<ledger_start, ledger_window, ledger_evaluation, ledger_policy, ledger_generation,
                                  ledger_event, ledger_farewell, ledger_shard, ledger_deciding>;

/// A line of the ledger; `at_seconds` is the arbitrator's monotonic time since its start.
struct ledger_row {
  double at_seconds = 0;
  ledger_entry entry;
};

/// One line without its newline.
std::string to_json_line(const ledger_row& row);
/// Nothing for a line that is torn or not ours; unknown fields are ignored.
std::optional<ledger_row> parse_ledger_line(const std::string& line);
/// All rows of a ledger; a torn last line is left out. `error` says why the file cannot be read.
std::vector<ledger_row> read_ledger(const std::string& path, std::string& error);

/// Farewells and evaluations as JSON, for workers/<host>.json.
std::string to_json(const messages::farewell& farewell, const std::vector<messages::evaluation_report>& evaluations);
bool parse_worker_file(const std::string& text, messages::farewell& farewell,
                       std::vector<messages::evaluation_report>& evaluations);

/// Thread-safe: the arbitrator, its aggregator and the supervisors all write.
class ledger {
public:
  virtual ~ledger() = default;
  virtual void append(const ledger_row& row) = 0;
};

/// Appends to `path`, one write a line. A write that fails is logged once and the run goes on.
std::unique_ptr<ledger> open_file_ledger(const std::string& path, std::string& error);

} // namespace dynamix::actors
