#pragma once

/// The values that actors exchange, as plain structs. `messages/codec.hpp` turns each into a Cap'n Proto frame and
/// back, and refuses a frame whose fields make no sense, so a decoded struct always satisfies the ranges given here.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace dynamix::messages {

/// Rises with every incompatible change of a message's meaning.
inline constexpr std::uint32_t protocol_version = 2;

// Limits on everything that a peer can send.
inline constexpr std::uint32_t max_workers = 4096;
inline constexpr std::uint32_t max_batch = 1U << 20;
inline constexpr std::uint32_t max_name_length = 128;  ///< bytes
inline constexpr std::uint32_t max_text_length = 4096; ///< bytes
inline constexpr std::uint32_t max_state_size = 64;
inline constexpr std::uint32_t max_actions = 64;
inline constexpr std::uint32_t max_trajectory_length = 4096;
inline constexpr std::uint32_t max_store_keys = 4096;
inline constexpr std::uint32_t max_key_length = 1024; ///< bytes
inline constexpr std::uint32_t max_store_value_bytes = 1U << 20;
inline constexpr std::uint32_t max_policy_bytes = 16U << 20;
/// Of generations, terms, windows and steps: a double holds it exactly, and what is counted on from it does not wrap.
inline constexpr std::uint64_t max_counter = 1ULL << 53;

/// Orders decisions: first by the arbitrator's term, then by the window that was decided on.
/// Windows count from 1; {0, 0} means "no decision yet".
struct decision_key {
  std::uint64_t term = 0;
  std::uint64_t window = 0;
  friend auto operator<=>(const decision_key&, const decision_key&) = default;
};

/// A worker's first message after a connect, and whenever it has left a generation without being done: who calls,
/// whether both sides agree on what matters, and where its training stands.
struct hello {
  std::uint32_t protocol = protocol_version;
  std::string cluster;              ///< name of the cluster, 1 to 128 characters
  std::uint64_t cluster_digest = 0; ///< of the resolved cluster file; both sides must read the same one
  std::string host;                 ///< name of the calling host in the cluster file
  std::uint64_t incarnation = 0;    ///< unique a process start; > 0
  std::uint32_t heartbeat_interval_ms = 0;
  std::uint64_t generation = 0;       ///< newest that the worker was placed in; 0: none yet
  decision_key last_decision;         ///< newest that it holds
  bool training = false;              ///< in that generation; otherwise it waits for a place
  std::vector<std::uint32_t> members; ///< of that generation, rising; empty unless it trains
  std::uint64_t steps = 0;            ///< completed; the state after them is in memory
  std::uint64_t attempted_steps = 0;  ///< `steps`, and one more where one was in flight when the generation ended
  std::uint64_t checkpoint_steps = 0; ///< of the newest checkpoint that it can go on from; 0: none
  friend bool operator==(const hello&, const hello&) = default;
};

enum class welcome_verdict : std::uint8_t {
  accepted = 1,
  protocol_mismatch,
  cluster_mismatch,   ///< another cluster, or another version of its file
  unknown_host,       ///< not in the cluster file, or without a worker role
  duplicate_host,     ///< the same name is connected under another incarnation
  heartbeat_mismatch, ///< would cut healthy connections
  generation_closed,  ///< training is over: nobody can join any more
  not_leader,         ///< another replica decides: `leader`
};

/// The answer to a hello. The fields behind `detail` hold only when accepted.
struct welcome {
  welcome_verdict verdict = welcome_verdict::accepted;
  std::string detail; ///< for a person
  std::uint64_t term = 0;
  std::uint64_t generation = 0; ///< newest that was formed; 0: none yet
  std::uint32_t rank = 0;       ///< the worker's position among the workers of the cluster file, in all generations
  std::string leader;           ///< with not_leader: the host to go to; empty where it is not known
  friend bool operator==(const welcome&, const welcome&) = default;
};

/// A new generation: one fixed set of workers with one process group. Sent to each of its members.
struct placement {
  std::uint64_t generation = 0;       ///< from 1
  std::vector<std::uint32_t> members; ///< ranks, rising; at least one
  std::uint32_t source = 0;           ///< the member whose state all start from
  std::string store_prefix;           ///< of the generation's process group
  friend bool operator==(const placement&, const placement&) = default;
};

/// What becomes of a running generation; sent unasked to each of its members.
enum class generation_change : std::uint8_t {
  ended = 1, ///< a member is lost: leave at once, drop the step in flight, and say hello
  regroup,   ///< somebody wants to join: leave together at the next agreement, and say hello
};

struct generation_notice {
  std::uint64_t generation = 0; ///< from 1
  generation_change change = generation_change::ended;
  std::string reason; ///< for a person
  friend bool operator==(const generation_notice&, const generation_notice&) = default;
};

/// A worker's sign of life.
struct heartbeat {
  std::uint32_t rank = 0;
  std::uint64_t incarnation = 0; ///< as in its hello
  std::uint64_t generation = 0;  ///< that it trains in; 0: none
  std::uint64_t steps = 0;       ///< completed
  friend bool operator==(const heartbeat&, const heartbeat&) = default;
};

/// Where a signal comes from. An older sender and the simulator leave it unspecified.
enum class signal_source : std::uint8_t { unspecified = 0, none, unprivileged, ebpf };

/// What the network did to one process in one window. Rates are means over the window.
struct network_statistics {
  bool valid = false;
  double throughput_bytes_per_second = 0; ///< sent and received, >= 0
  double rtt_seconds = 0;                 ///< mean of the sockets' smoothed RTT, >= 0
  std::uint64_t retransmissions = 0;      ///< segments in this window
  signal_source source = signal_source::unspecified;
  double rtt_p50_seconds = 0;            ///< of the connections that carry gradients, >= 0
  double rtt_p99_seconds = 0;            ///< 0: no sample in this window
  double gradient_bytes_per_second = 0;  ///< sent and received between training threads, >= 0
  double control_bytes_per_second = 0;   ///< sent and received by everything else, >= 0
  std::uint64_t segments_sent = 0;       ///< with data, repeated ones too
  double sender_blocked_ratio = 0;       ///< time with gradients sent but not delivered, over wall time, >= 0
  double receiver_blocked_ratio = 0;     ///< time in which a peer did not read what was to be sent, likewise, >= 0
  std::uint64_t connection_resets = 0;   ///< connections that broke in this window
  std::uint32_t connections = 0;         ///< that carry gradients, open at the window's end
  double congestion_window_segments = 0; ///< of those, mean over RTT samples or, without eBPF, at the end, >= 0
  friend bool operator==(const network_statistics&, const network_statistics&) = default;
};

/// What the machine did to one process in one window.
struct system_statistics {
  bool valid = false;
  double cpu_time_ratio = 0;       ///< CPU time over wall time of the process, [0, cores]
  double run_queue_wait_ratio = 0; ///< time runnable but not running, over wall time, summed over threads, >= 0
  double memory_ratio = 0;         ///< resident set over physical memory, [0, 1]
  signal_source source = signal_source::unspecified;
  bool training_valid = false;            ///< whether the next three, of the training thread alone, were measured
  double training_cpu_ratio = 0;          ///< time on a CPU over wall time, [0, 1]
  double training_wait_ratio = 0;         ///< time runnable but not running over wall time, [0, 1]
  double training_stalled_ratio = 0;      ///< time in uninterruptible sleep (disk) over wall time, [0, 1]; eBPF only
  std::uint64_t involuntary_switches = 0; ///< all threads, in this window, as are the next two
  std::uint64_t page_faults = 0;          ///< minor and major
  std::uint64_t major_page_faults = 0;
  std::uint64_t cgroup_memory_bytes = 0; ///< charged to the process's memory cgroup; 0: unknown
  double throttled_ratio = 0;            ///< time that the CPU quota of the cgroup held it back over wall time, >= 0
  bool pressure_valid = false;           ///< whether the next three (PSI "some", whole machine) were measured
  double cpu_pressure_ratio = 0;         ///< time in which some task waited for it, over wall time, [0, 1]
  double memory_pressure_ratio = 0;
  double io_pressure_ratio = 0;
  friend bool operator==(const system_statistics&, const system_statistics&) = default;
};

/// What the machine's GPUs did at the window's end.
struct gpu_statistics {
  bool valid = false;           ///< false without a GPU
  double utilisation_ratio = 0; ///< mean over the devices, [0, 1]
  double memory_ratio = 0;      ///< of the fullest device, [0, 1]
  bool throttled = false;       ///< the clock of some device was held down by heat or power
  friend bool operator==(const gpu_statistics&, const gpu_statistics&) = default;
};

/// What training did in one window. Means are over the window's steps unless said otherwise.
struct training_statistics {
  std::uint32_t steps = 0;
  std::uint64_t samples = 0; ///< by this worker
  double accuracy = 0;       ///< mean batch accuracy, [0, 1]
  double loss = 0;           ///< mean batch loss, >= 0
  double iteration_seconds = 0;
  double compute_seconds = 0;  ///< forward, backward and the emulated slow-down
  double exchange_seconds = 0; ///< blocked on peers and on the network
  double data_seconds = 0;     ///< fetching the batch
  bool gradient_valid = false; ///< false while the estimates below are warming up
  double sigma_norm = 0;       ///< sqrt(sigma2_norm)
  double sigma2_norm = 0;      ///< (E|g_i|^2 - |G|^2) / |G|^2, this worker's relative gradient variance, >= 0
  double gradient_norm = 0;    ///< |g| of the global batch, >= 0
  double noise_scale = 0;      ///< phi = tr(Sigma) / |G|^2 in samples, >= 0
  double learning_rate = 0;
  double gain = 1; ///< of the learning-rate rule, [1/S, S]
  friend bool operator==(const training_statistics&, const training_statistics&) = default;
};

/// One worker's account of one window, completed by its host's telemetry.
struct window_report {
  std::string host;
  std::uint32_t rank = 0;
  std::uint64_t generation = 0;
  std::uint64_t window = 0; ///< from 1
  std::uint64_t first_step = 0;
  bool final = false;      ///< the worker trains no further: decide nothing on it
  std::uint32_t batch = 0; ///< in force during the window
  decision_key decision;   ///< that put it in force
  std::uint64_t global_batch = 0;
  std::uint64_t epoch = 0;
  std::uint64_t epoch_samples = 0; ///< of all workers in this epoch up to the window's end
  double elapsed_seconds = 0;      ///< since training began
  training_statistics training;
  network_statistics network;
  system_statistics system;
  double telemetry_seconds = 0; ///< CPU time that measuring this window cost, in the kernel too
  double control_seconds = 0;   ///< time that the training thread spent on windows and decisions
  gpu_statistics gpu;
  double program_seconds = 0;   ///< of telemetry_seconds: run time of the programs in the kernel
  std::string telemetry_choice; ///< for a person: what each signal is measured with and why; empty: as before
  friend bool operator==(const window_report&, const window_report&) = default;
};

/// The whole model evaluated on the test set; sent by rank 0.
struct evaluation_report {
  std::uint64_t step = 0;
  std::uint64_t epoch = 0; ///< completed
  std::uint64_t samples = 0;
  double elapsed_seconds = 0;
  double train_loss = 0;
  double test_loss = 0;
  double test_accuracy = 0; ///< [0, 1]
  std::uint64_t global_batch = 0;
  double learning_rate = 0;
  friend bool operator==(const evaluation_report&, const evaluation_report&) = default;
};

/// A worker's decisions, counted. received = applied + superseded + unapplied.
struct decision_counts {
  std::uint64_t received = 0;
  std::uint64_t applied = 0;
  std::uint64_t late = 0;          ///< applied, but after the first boundary that it was meant for
  std::uint64_t superseded = 0;    ///< replaced by a newer one before it applied
  std::uint64_t unapplied = 0;     ///< still pending when training ended
  std::uint64_t stale_refused = 0; ///< older than the newest, refused
  std::uint64_t duplicated = 0;    ///< the same key again, refused
  friend bool operator==(const decision_counts&, const decision_counts&) = default;
};

/// A worker's last word.
struct farewell {
  std::string host;
  std::uint32_t rank = 0;
  bool succeeded = false;
  std::string reason; ///< why it ended
  std::uint64_t steps = 0;
  std::uint64_t samples = 0;
  std::uint64_t epochs = 0;
  double wall_seconds = 0;
  double final_accuracy = 0;
  double seconds_to_target = -1; ///< negative if never
  std::uint64_t parameter_checksum = 0;
  double control_seconds = 0;
  double telemetry_seconds = 0;
  decision_counts decisions;
  std::uint64_t incarnation = 0; ///< as in its hello; 0: an older sender, or no worker
  friend bool operator==(const farewell&, const farewell&) = default;
};

/// The shard's window: the reports that came before the deadline. The policy sums s_global from them.
struct shard_report {
  std::uint64_t window = 0;
  std::uint64_t generation = 0;
  std::vector<window_report> reports; ///< ordered by rank; may be of an older window where a worker was late
  std::uint32_t expected = 0;         ///< workers of the shard
  double gather_seconds = 0;          ///< from the window's first report to its close, >= 0
  friend bool operator==(const shard_report&, const shard_report&) = default;
};

/// One worker's new batch size.
struct decision {
  decision_key key;
  std::uint64_t generation = 0;
  std::uint32_t rank = 0;
  std::uint32_t batch = 0;
  std::uint64_t first_step = 0; ///< earliest step that it may hold for; all workers agree on the actual one
  friend bool operator==(const decision&, const decision&) = default;
};

/// One transition of one worker, as PPO sees it.
struct transition {
  std::vector<float> state; ///< normalised, as the policy saw it; masked entries are 0
  std::uint32_t action = 0; ///< index into the actions
  float log_probability = 0;
  float value = 0;
  float reward = 0;
  friend bool operator==(const transition&, const transition&) = default;
};

/// Consecutive transitions of one worker under one policy version.
struct trajectory {
  std::uint32_t rank = 0;
  std::uint64_t policy_version = 0;
  std::vector<transition> transitions;
  float bootstrap_value = 0; ///< value of the state that follows the last transition
  friend bool operator==(const trajectory&, const trajectory&) = default;
};

/// New parameters for the policy, as a tensor file (storage/tensor_file.hpp) with its own checksum.
struct policy_version {
  std::uint64_t version = 0;
  std::vector<std::uint8_t> parameters;
  // What the update looked like, for the ledger.
  double policy_loss = 0;
  double value_loss = 0;
  double entropy = 0;
  double approximate_kl = 0;
  double clip_fraction = 0;
  friend bool operator==(const policy_version&, const policy_version&) = default;
};

/// One operation on the store through which a process group meets (c10d::Store).
enum class store_verb : std::uint8_t { set = 1, get, add, check, remove, count };

struct store_operation {
  store_verb verb = store_verb::get;
  std::vector<std::string> keys; ///< exactly one for set, get, add, remove; none for count
  std::vector<std::uint8_t> value;
  std::int64_t amount = 0; ///< for add
  friend bool operator==(const store_operation&, const store_operation&) = default;
};

enum class store_status : std::uint8_t { ok = 1, absent };

struct store_result {
  store_status status = store_status::ok;
  std::vector<std::uint8_t> value; ///< of get
  std::int64_t number = 0;         ///< of add, count; 1 or 0 for check and remove
  friend bool operator==(const store_result&, const store_result&) = default;
};

} // namespace dynamix::messages
