#pragma once

/// The ledger of a run, `windows.jsonl`: one JSON object a line, in the order of events, written by the arbitrator. A
/// run can be followed, explained and summed up from it alone. Includes no CAF.

#include "messages/types.hpp"
#include "policy/reward.hpp"

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
  std::string started_at; ///< UTC, ISO 8601
};

/// One worker in a decided window.
struct ledger_worker {
  messages::window_report report;
  bool stale = false;               ///< an older report stood in for a late one
  policy::reward_terms reward;      ///< of report.window, earned by report.decision
  std::vector<float> state;         ///< normalised, as the policy saw it
  std::vector<float> probabilities; ///< of the actions
  std::int32_t action = -1;
  float log_probability = 0;
  float value = 0;
  std::uint32_t assigned_batch = 0; ///< before the decision
  std::uint32_t decided_batch = 0;
  std::string reason;
};

/// "kind": "window"
struct ledger_window {
  messages::decision_key key;
  std::uint64_t generation = 0;
  std::uint64_t policy_version = 0;
  bool decided = true;                ///< false on the last window, on which nothing is decided
  double gather_seconds = 0;          ///< first report to the last, or to the deadline
  double decide_seconds = 0;          ///< rewards, policy and sending
  std::vector<ledger_worker> workers; ///< by rank
};

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
};

/// "kind": "event": joined, rejoined, refused, lost, restarted, warning
struct ledger_event {
  std::string event;
  std::string host; ///< empty: the arbitrator's own
  std::string text;
};

/// "kind": "farewell"
struct ledger_farewell {
  messages::farewell farewell;
};

using ledger_entry =
    std::variant<ledger_start, ledger_window, ledger_evaluation, ledger_policy, ledger_event, ledger_farewell>;

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
