#pragma once

/// A whole cluster as processes that this machine starts: its own, or those that stand for others' (remote_run.hpp).

#include "cluster/cluster_file.hpp"
#include "ledger/rows.hpp"
#include "node/launch/host_processes.hpp"
#include "node/launch/live_output.hpp"
#include "node/launch/run_directory.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

namespace dynamix::node {

/// Sees a run from within the launcher, in its thread, and may break it: the fault injector.
class launch_observer {
public:
  virtual ~launch_observer() = default;
  /// At every look, with what the ledger has got since the last. `training`: whoever dies now is started again.
  virtual void look(host_processes& hosts, const std::vector<ledger::row>& rows, bool training) = 0;
  /// Returns an empty string, or why this is not a good end, whatever it looks like.
  virtual std::string ended(const host_end& end) = 0;
  /// Training is to end in an orderly way, although its epochs are not done.
  virtual bool over() const = 0;
  /// Whoever dies is started again, although the ledger tells of no training yet.
  virtual bool begun() const { return false; }
  /// For a person, where `over`.
  virtual std::string why_over() const { return "the faults are over"; }
};

struct launch_options {
  cluster::cluster_file file; ///< resolved; the run directory holds it as cluster.toml
  run_directory run;
  std::string program;   ///< dynamix-node itself
  bool insecure = false; ///< without keys, wherever hosts listen
  std::string keys = {}; ///< directory of the hosts' keys; empty: the file's, or none
  bool resume = false;   ///< from the run directory's newest checkpoint
  bool quiet = false;    ///< no progress
  bool trace = false;    ///< every host's process writes its trace
  std::string page = {}; ///< printed as soon as `page_answers`
  std::function<bool()> page_answers = {};
  bool log_json = false;
  launch_observer* observer = nullptr;
  std::set<std::string> later = {}; ///< of `file`, but not of its text: the observer starts them, to join
  std::chrono::milliseconds look_interval{100};
  std::stop_token hurry = {}; ///< requested after the stop: whoever has not ended yet ends at once
  std::map<std::string, std::vector<std::string>> command_prefix = {}; ///< a program that runs the host's, by host
  std::map<std::string, std::vector<std::string>> more_arguments = {}; ///< of `dynamix-node run`, by host
  std::map<std::string, std::vector<std::pair<std::string, std::string>>> more_environment = {}; ///< by host
  /// What stands for a host's process; empty: `dynamix-node run` on this machine, as the other options say.
  host_processes::describe_child describe = {};
};

struct launch_outcome {
  bool succeeded = false; ///< every worker that was not given up ended well, or left in order
  bool stopped = false;   ///< asked to end early
  bool over = false;      ///< by the observer, for whom training need not come to its end
  std::string error;      ///< one line for a person: who died; empty when nobody did
  std::string last_words; ///< the end of its log, of several lines
  std::vector<std::string> warnings;
  std::map<std::string, std::uint64_t> restarts; ///< of hosts' processes; hosts without any are left out
  std::set<std::string> given_up;                ///< hosts that died too often, or had no place when training ended
};

/// Starts each host's process, shows the progress that the ledger tells, and waits until all have ended. A
/// host that dies before training has begun ends the run; after that it is started again with `--resume`, as often as
/// the file's [supervision] allows, and then given up while the others go on. One that leaves in order, since somebody
/// else has sent its process SIGTERM, is not started again. Whoever has not ended a bounded time
/// after it should have is asked (SIGINT where the whole run is to end, SIGTERM), and then killed; no process outlives
/// the call.
launch_outcome launch(const launch_options& options, live_output& output, std::stop_token stop);

/// By the SIGINT that it was sent, before or after it could do anything about it.
bool stopped_as_asked(const child_exit& exit);

/// Nothing has failed: training came to its end or, nobody having asked this host's process for it, ended before.
bool ended_in_order(const child_exit& exit);

/// The end of a log, at most `lines` lines, each indented by four spaces.
std::string last_lines(const std::string& path, std::size_t lines);

} // namespace dynamix::node
