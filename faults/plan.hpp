#pragma once

/// A fault plan: what is to be broken, when and for how long, and what the run must withstand. docs/faults.md lists the
/// fields.

#include "cluster/cluster_file.hpp"

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace dynamix::faults {

/// `fault_kinds` says what each does.
enum class fault_kind : std::uint8_t {
  kill,
  crash,
  exit,
  leave,
  join,
  wipe,
  hang,
  slow,
  disk_full,
  clock_jump,
  partition,
  delay,
  throttle,
  drop,
  reset,
  corrupt,
  truncate
};

enum class fault_direction : std::uint8_t { both, out, in }; ///< seen from the target

/// Fields that only some kinds have, as bits.
enum fault_field : std::uint8_t {
  has_no_field = 0,
  has_duration = 1,      ///< required
  may_have_duration = 2, ///< of a process: how long it stays dead
  has_factor = 4,
  has_delay = 8,
  has_rate = 16,
  has_direction = 32,
  has_jump = 64,
  has_workers = 128
};

struct fault_kind_row {
  std::string_view name;
  std::uint8_t fields;
  bool ends_process;
  bool on_connection; ///< acts on the target's control connections, by the proxy
  std::string_view doc;
};
inline constexpr std::array<fault_kind_row, 17> fault_kinds = {{
    {"kill", may_have_duration, true, false, "SIGKILL"},
    {"crash", may_have_duration, true, false, "SIGSEGV"},
    {"exit", may_have_duration, true, false, "SIGQUIT: the process exits at once with code 1"},
    {"leave", may_have_duration, true, false,
     "SIGTERM: the host leaves in time, and comes again at the end, or at once"},
    {"join", has_workers, false, false, "a host that the file does not name is started, and joins the open cluster"},
    {"wipe", may_have_duration, true, false, "SIGKILL; what the host has stored is deleted before its restart"},
    {"hang", has_duration, false, false, "SIGSTOP, then SIGCONT at the end"},
    {"slow", has_duration | has_factor, false, false, "SIGSTOP and SIGCONT in turn, each stop far below detect_ms"},
    {"disk_full", has_duration, false, false, "no file that the process writes can grow (RLIMIT_FSIZE 0, EFBIG)"},
    {"clock_jump", has_duration | has_jump, false, false, "the wall clock that the process reads is shifted"},
    {"partition", has_duration | has_direction, false, true, "nothing passes; what was sent is delivered at the end"},
    {"delay", has_duration | has_delay | has_direction, false, true, "every byte is delayed"},
    {"throttle", has_duration | has_rate | has_direction, false, true, "bandwidth is limited"},
    {"drop", has_duration | has_direction, false, true,
     "what is sent is discarded; the connection is reset at the end"},
    {"reset", has_no_field, false, true, "the connections are reset (RST)"},
    {"corrupt", has_direction, false, true, "one bit of the next chunk is flipped"},
    {"truncate", has_direction, false, true, "half of the next chunk passes, then the connection ends"},
}};
constexpr const fault_kind_row& row_of(fault_kind kind) {
  return fault_kinds[static_cast<std::size_t>(kind)];
}
inline std::string_view to_string(fault_kind kind) {
  return row_of(kind).name;
}

inline constexpr std::uint32_t endless = 1'000'000'000;
inline constexpr std::uint64_t never = std::numeric_limits<std::uint64_t>::max();

/// One [[fault]]. It happens first when its one trigger does, counted from training's beginning, and `repeat` times in
/// all; at random without end, unless `repeat` is given.
struct fault_rule {
  std::vector<fault_kind> kinds;    ///< one of them is drawn each time
  std::vector<std::string> targets; ///< host, worker, arbitrator, leader, rank:N, random; workers, arbitrators: all
  double at_seconds = -1;           ///< negative: not the trigger
  std::uint64_t at_step = never;
  std::uint64_t at_window = never;
  double rate_per_minute = 0; ///< at random, with exponential gaps; 0: not the trigger
  double every_seconds = 0;   ///< between one start and the next
  std::uint32_t repeat = 1;
  double duration_seconds = 0;
  double factor = 4;
  double delay_ms = 100;
  double bytes_per_second = 10'000;
  double jump_seconds = 3600;
  std::uint32_t workers = 1; ///< of a host that joins
  fault_direction direction = fault_direction::both;
  settings::position place; ///< of its header
  settings::position targets_place;
};

/// Where faults of the network are made: in a proxy before each control connection, or between hosts in network
/// namespaces of their own, where the gradients' connections are cut too.
enum class fault_network : std::uint8_t { proxy, namespaces };

/// What the run must withstand. A limit of 0 is off, but for the counts, whose 0 means none.
struct fault_limits {
  std::uint64_t steps_lost_per_fault = 1;
  double detect_seconds = 0;    ///< each
  double resume_seconds = 0;    ///< p99: from the fault to the next completed step
  double recover_seconds = 60;  ///< each: until the target is back; a fault after it waits no longer
  double accuracy_drop = 0.02;  ///< below the unharmed run's
  double memory_growth_mib = 0; ///< of a process that lived through 100 faults, or 10 at least
};

struct fault_plan {
  std::string path; ///< as given
  std::string name;
  std::string cluster; ///< a path, relative to the plan's directory
  std::uint64_t seed = 1;
  bool compare = true;                  ///< with the same run unharmed
  bool one_at_a_time = true;            ///< a fault waits until the one before is over and recovered from
  double settle_seconds = 0.5;          ///< how much longer it then waits
  double after_last_fault_seconds = -1; ///< recovered from, training ends; negative: when the cluster file says so
  fault_network network = fault_network::proxy;
  std::string script; ///< of every training process of the user's, a shell's; empty: none is started
  std::string check;  ///< whether what they have left is right, a shell's; empty: nobody asks
  fault_limits limits;
  std::vector<fault_rule> rules;
};

struct plan_result {
  fault_plan plan; ///< holds only when `errors` is empty
  std::vector<cluster::file_error> errors;
};

plan_result parse_plan_text(const std::string& text, const std::string& path);
plan_result read_plan(const std::string& path);

/// The cluster file that the plan names, as a path that can be opened.
std::string cluster_path(const fault_plan& plan);

/// Lets each fault that repeats do so this often. False: none does.
bool repeat_faults(fault_plan& plan, std::uint32_t times);

/// The file with the hosts that join by the plan. They have no port of their own to be reached at.
cluster::cluster_file with_joining(const fault_plan& plan, cluster::cluster_file file);
bool joins(const cluster::host& one);

/// Targets that the cluster does not have, and training processes that are the other's: the script is the plan's, and
/// `training.trainer` the file's.
std::vector<cluster::file_error> check_targets(const fault_plan& plan, const cluster::cluster_file& file);

/// All fields with their meaning, as the Markdown tables of docs/faults.md.
std::string describe_plan_markdown();

} // namespace dynamix::faults
