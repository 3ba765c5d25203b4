#pragma once

/// The cluster file, resolved: every field holds its value or its documented default, and lies in its range.
/// docs/cluster-file.md lists them for users; `dynamix-node check` prints them.

#include "cluster/listen_address.hpp"
#include "cluster/server_plan.hpp"
#include "cluster/timeouts.hpp"
#include "settings/toml_reader.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dynamix::cluster {

/// A change of a host's emulated slowness: from `at_seconds` of the run on, computing takes `compute_slowdown` times as
/// long.
struct emulation {
  double at_seconds = 0;       ///< >= 0
  double compute_slowdown = 1; ///< [1, 100]
};

/// A server sums gradients of others; every worker may do so, too.
enum class role : std::uint8_t { worker, arbitrator, server };

struct host {
  std::string name;
  std::string address = "127.0.0.1";
  std::uint16_t port = 0; ///< of the host's gateway, [1, 65535]
  std::vector<role> roles = {role::worker};
  std::vector<emulation> emulate;  ///< ordered by at_seconds; `compute_slowdown` of the host is the entry at 0
  std::uint32_t batch_highest = 0; ///< what its memory allows; 0: batch.highest
  std::uint16_t replica_port = 0;  ///< ignored, but in the digests of earlier runs
  std::uint32_t workers = 0;       ///< training processes that join it; 0: one for each of `gpus`, or one, [0, 256]
  std::vector<std::int32_t> gpus;  ///< of each worker, by the driver's numbers; empty: the file gives none
  std::string preemption; ///< a file, or "command:COMMAND", that says when its provider takes it back; empty: none does
  bool bind_cores = true; ///< each of several workers gets its part of the machine's cores
  // For the simulator alone.
  std::string profile;         ///< device profile; empty: simulation.profile
  double bandwidth_mbit = 0;   ///< of its link; 0: simulation.bandwidth_mbit, [0, 1e7]
  double join_at_seconds = 0;  ///< >= 0
  double leave_at_seconds = 0; ///< 0: stays
  /// One for each of several workers, NAME/0, NAME/1, ...: as this host, but for name, roles and GPU. Empty: this host
  /// is its only worker, or none.
  std::vector<host> slots;

  bool has(role wanted) const;
  /// As `workers` and `gpus` say.
  std::size_t worker_count() const { return workers > 0 ? workers : std::max<std::size_t>(gpus.size(), 1); }
  /// Sums gradients, and brings none.
  bool only_serves() const { return has(role::server) && !has(role::worker); }
  /// Is a member of generations.
  bool takes_part() const { return has(role::worker) || has(role::server); }
  /// Its slots, or itself where it is a member of generations.
  std::vector<const host*> members() const;
  std::uint32_t port_for_replicas() const { return replica_port == 0 ? port + 1000U : replica_port; }
};

/// Of a host with several workers, one that stands for each of them; else none.
std::vector<host> make_slots(const host& machine);
/// The host that a worker is of: "ada" of "ada/1", and of "ada".
std::string host_of(const std::string& worker);
/// Whether it is one of several workers of its host.
bool is_slot(const std::string& worker);
/// A worker's name in the names of files, where "/" cannot be: "ada+1".
std::string file_name_of(const std::string& worker);
/// Of workers that have one GPU each, what CUDA_VISIBLE_DEVICES shows to one process for all of them; empty: some have
/// none.
std::string visible_gpus(const std::vector<const host*>& workers);

/// Who computes a worker's gradients: the host's own process, or the user's, which speaks to it through the SDK.
enum class trainer_kind : std::uint8_t { built_in, client };
enum class model_kind : std::uint8_t {
  lenet,
  vgg11,
  vgg13,
  vgg16,
  vgg19,
  resnet18,
  resnet34,
  resnet50,
  transformer,
  lstm,
  ncf,
  script ///< a TorchScript module of the user's
};
/// fashion_mnist_32: the same images in the shape of CIFAR's.
enum class dataset_kind : std::uint8_t {
  fashion_mnist,
  fashion_mnist_32,
  cifar10,
  cifar100,
  text,
  interactions, ///< synthetic
  movielens
};
enum class vocabulary_kind : std::uint8_t { bytes, words, byte_pairs };
enum class optimizer_kind : std::uint8_t { sgd, adam, adamw };
enum class learning_rate_rule : std::uint8_t { constant, linear, square_root, adascale };
/// Whether batch sizes may come to less than the initial global batch: under the rules whose learning rate is right
/// there, adascale, or near enough, square_root.
constexpr bool goes_below_initial(learning_rate_rule rule) {
  return rule == learning_rate_rule::adascale || rule == learning_rate_rule::square_root;
}
/// What the initial batch size is divided by where training begins small.
inline constexpr std::uint32_t start_divisor = 4;
/// Group norm depends on no other sample, so unequal batches cannot skew it; batch norm is not offered.
enum class normalization_kind : std::uint8_t { none, group };
enum class schedule_kind : std::uint8_t { constant, cosine };
enum class augmentation_kind : std::uint8_t { none, crop_flip };
/// What a forward pass computes in: float32, or bfloat16 wherever PyTorch's autocast holds that to be safe.
enum class precision_kind : std::uint8_t { float32, bfloat16 };

/// The network to train, as the file names it: one of the built-in ones, or "script:FILE".
struct model_choice {
  model_choice(model_kind kind = model_kind::lenet); ///< not `script`, which needs a file
  std::string name;

  operator model_kind() const;
  /// FILE of "script:FILE"; otherwise empty.
  std::string script_path() const;
};

/// What becomes of a step whose gradient is not finite.
enum class nan_kind : std::uint8_t { stop, drop };

struct training {
  trainer_kind trainer = trainer_kind::built_in; ///< with `client` the user's program knows model, data and optimiser
  model_choice model;
  double width = 1.0; ///< factor on the units of a layer, [0.0625, 4]
  normalization_kind normalization = normalization_kind::none;
  std::uint32_t layers = 4;    ///< of transformer and lstm, [1, 64]
  std::uint32_t heads = 4;     ///< of transformer, [1, 64]
  std::uint32_t context = 128; ///< tokens of a sample of text, [2, 8192]
  dataset_kind dataset = dataset_kind::fashion_mnist;
  std::string data_path = "/usr/share/datasets/fashion-mnist";
  vocabulary_kind vocabulary = vocabulary_kind::bytes;
  std::uint32_t vocabulary_size = 8192; ///< of words and byte pairs, [2, 65536]
  std::uint32_t sampled_softmax = 512;  ///< words that lstm's loss draws a step; 0: none, [0, 65536]
  double interactions_scale = 1;        ///< of the data set interactions, (0, 1]
  optimizer_kind optimizer = optimizer_kind::sgd;
  double learning_rate = 0.05; ///< for the global batch of `batch.initial` on every worker, (0, 10]
  learning_rate_rule rule = learning_rate_rule::adascale;
  schedule_kind schedule = schedule_kind::constant;
  std::uint64_t warmup_samples = 0; ///< by all workers, [0, 1e12]
  double label_smoothing = 0;       ///< [0, 1)
  std::uint64_t ema_samples = 0;    ///< horizon of the averaged weights, by all workers; 0: none, [0, 1e12]
  std::uint32_t loader_threads = 0; ///< prepare batches ahead, [0, 64]
  augmentation_kind augmentation = augmentation_kind::none;
  std::uint32_t micro_batch = 0; ///< most samples at once of a step; 0: all, [0, 1048576]
  std::uint32_t memory_mb = 0;   ///< of a worker's process; 0: what its control group allows, [0, 1e7]
  compression_kind compression = compression_kind::none;
  double top_k = 0;        ///< share of the dense gradients that is summed in a step; 0: all, [0, 1)
  double momentum = 0.9;   ///< of sgd, [0, 1)
  double weight_decay = 0; ///< [0, 1]
  double clip_norm = 0;    ///< of the reduced gradient; 0 is off, [0, 1e6]
  nan_kind nan = nan_kind::stop;
  double epochs = 5;                  ///< (0, 10000]
  double target_accuracy = 0;         ///< stop there; 0 is off, [0, 1]
  std::uint32_t patience = 0;         ///< evaluations without a better accuracy; 0 is off, [0, 1e6]
  double evaluate_every_epochs = 1;   ///< in samples of an epoch, (0, 1000]
  std::uint32_t evaluate_samples = 0; ///< most of the test set in an evaluation; 0: all, [0, 4294967295]
  double checkpoint_every_epochs = 1; ///< (0, 1000]
  std::string device = "auto";        ///< auto | cpu | cuda
  std::uint32_t threads = 1;          ///< a worker computes with, [1, 256]
  precision_kind precision = precision_kind::float32;
  exchange_kind exchange = exchange_kind::ring;
  std::uint32_t bucket_kib = 1024; ///< of gradients reduced at once, [16, 262144]
};

struct batch {
  std::uint32_t initial = 64;   ///< a worker, [lowest, highest]
  std::uint32_t lowest = 32;    ///< [1, highest]
  std::uint32_t highest = 1024; ///< [lowest, 1048576]
};

/// `ppo` decides relative to a measured plan; `ppo_add` and `ppo_simple` add to batch sizes as DYNAMIX does; `oracle`
/// knows the truth and exists in simulation only.
enum class policy_kind : std::uint8_t {
  static_batch,
  static_best,
  lb_bsp,
  omnilearn,
  goodput,
  ppo,
  ppo_add,
  ppo_simple,
  oracle,      ///< knows the truth at every window
  step_oracle, ///< and at every step
  stigmergic,  ///< nobody decides: the workers choose by what each says of its pace
};
/// Whether the policy needs what only a simulation knows.
constexpr bool knows_truth(policy_kind policy) {
  return policy == policy_kind::oracle || policy == policy_kind::step_oracle;
}
/// Whether the policy changes batch sizes.
constexpr bool adapts(policy_kind policy) {
  return policy != policy_kind::static_batch && policy != policy_kind::static_best;
}
/// Whether the policy has parameters, which it starts from and may learn.
constexpr bool has_parameters(policy_kind policy) {
  return policy == policy_kind::ppo || policy == policy_kind::ppo_add || policy == policy_kind::ppo_simple;
}
enum class policy_mode : std::uint8_t { train, infer };
enum class balance_kind : std::uint8_t { automatic, on, off };
/// One arbitrator for all workers, shards of at most `fanout` workers under a root, or these where there are hosts
/// enough for them.
enum class arbitration_topology : std::uint8_t { central, tree, automatic };

struct arbitrator {
  policy_kind policy = policy_kind::ppo;
  policy_mode mode = policy_mode::train;
  std::string policy_file;         ///< parameters to start from; empty: fresh ones from the seed
  std::uint32_t window_steps = 10; ///< k, [1, 10000]
  std::vector<std::int32_t> actions = {-100, -25, 0, 25,
                                       100}; ///< added to a batch size; 2 to 64, distinct, one of them 0
  std::vector<std::int32_t> scales = {85,  92, 100, 109,
                                      120, 140};  ///< of ppo, percent of the plan's step time; 2 to 16, one of them 100
  std::uint32_t static_batch = 0;                 ///< of static-best, a worker; 0: batch.initial
  bool guard = true;                              ///< of the learned policies
  double guard_margin = 0.05;                     ///< predicted loss of goodput that the guard allows, [0, 1]
  bool shadow = false;                            ///< decide and log, act on nothing
  balance_kind balance = balance_kind::automatic; ///< whether workers share the global batch by their paces
  std::vector<std::string> replicas;              ///< hosts whose arbitrators stand in for each other: none, 3 or 5
  arbitration_topology topology = arbitration_topology::central;
  std::uint32_t fanout = 32;          ///< children of one arbitrator of the tree, [2, 256]
  std::vector<std::string> shards;    ///< hosts that hold the tree's shards; empty: planned
  std::uint32_t trajectory_kib = 256; ///< of trajectories that reach the root in one window, [1, 65536]
};

/// How often what has failed is started again: the actors of a host, and the host processes of `local`.
struct supervision {
  std::uint32_t max_restarts = 5;  ///< within the period; one more and the supervisor gives up, [0, 1000]
  std::uint32_t period_ms = 30000; ///< [1000, 3600000]
};

/// What a window is worth: `progress` log2(goodput / the best that the measurements allow), `paper` the formula below,
/// `automatic` progress for ppo and paper for the others.
enum class reward_kind : std::uint8_t { automatic, progress, paper };

/// r = A + alpha*max(0, dA) - beta*T_iter - delta*(log2(batch) - 5), for adaptive optimisers also - eta*(sigma2_norm +
/// sigma_norm).
struct reward {
  reward_kind kind = reward_kind::automatic;
  double alpha = 1.0;  ///< [0, 1000]
  double beta = 1.0;   ///< a second, [0, 1000]
  double delta = 0.05; ///< [0, 1000]
  double eta = 0.01;   ///< [0, 1000]
};

struct ppo {
  double learning_rate = 0.0003;     ///< (0, 1]
  double discount = 0.95;            ///< gamma, [0, 1]
  double gae_lambda = 0.95;          ///< [0, 1]
  double clip = 0.2;                 ///< epsilon, (0, 1]
  double entropy_coefficient = 0.01; ///< [0, 1]
  double value_coefficient = 0.5;    ///< [0, 10]
  double max_gradient_norm = 0.5;    ///< (0, 1000]
  std::uint32_t horizon = 16;        ///< windows per worker before an update, [2, 4096]
  std::uint32_t epochs = 4;          ///< passes over a rollout, [1, 100]
  std::uint32_t minibatches = 4;     ///< [1, 1024]
  std::uint32_t hidden = 64;         ///< units per layer, [4, 1024]
  /// Updates over which the learning rate falls to 0; 0 keeps it, [0, 1e6].
  std::uint32_t annealing_updates = 0;
};

enum class topology_kind : std::uint8_t { ring, parameter_server };

/// What `simulate`, `compare --simulate` and `train-policy` assume; nothing else reads it. Episodes come to each host
/// at random: exponential gaps and durations, factors log-uniform in [1.25, the given one].
struct simulation {
  std::string profile;     ///< device profile of hosts that name none
  std::string workload;    ///< how the model learns
  std::uint32_t cores = 0; ///< that all hosts share; 0: each computes on its own, [0, 65536]
  topology_kind topology = topology_kind::ring;
  double bandwidth_mbit = 10000;    ///< of a host's link, [0.001, 1e7]
  double latency_us = 50;           ///< one way, [0, 1e7]
  double overlap = 2;               ///< g in T = (T_grad^g + T_sync^g)^(1/g), [1, 10]
  double noise = 0.03;              ///< standard deviation of the logarithm of a step's computing time, [0, 2]
  double hiccup_rate = 0;           ///< share of a host's windows that take 1.3 to 4 times as long, [0, 1]
  double slow_every_seconds = 0;    ///< mean time between a host's slow-downs; 0: none
  double slow_seconds = 60;         ///< mean duration
  double slow_factor = 3;           ///< most, [1.25, 100]
  double congest_every_seconds = 0; ///< the same for its link
  double congest_seconds = 30;
  double congest_factor = 5;
  double loss_rate = 0; ///< share of segments sent again, [0, 0.5]
  double randomise = 0; ///< how far train-policy's environments vary from the file, [0, 1]
};

/// Where signals may come from: network from ebpf or tcp_info, machine from ebpf or procfs, accelerator from nvml. The
/// best that works on a host is taken.
enum class telemetry_source : std::uint8_t { ebpf, tcp_info, procfs, nvml };

/// What the page proves itself with: nothing, the host's keys, or a given certificate.
enum class page_tls : std::uint8_t { off, host, file };

/// The page and the metrics that the arbitrator's host serves.
struct dashboard {
  std::string listen = "127.0.0.1:8080"; ///< address:port, or empty: none
  std::string token_file;                ///< holds the bearer token; needed beyond loopback
  page_tls tls = page_tls::off;
  std::string certificate_file; ///< PEM, its chain behind it; for page_tls::file, as the key
  std::string key_file;
};

/// How gradients travel between workers that have proved who they are.
enum class data_protection : std::uint8_t { encrypted, clear };

struct security {
  std::string keys; ///< directory with hosts/NAME/{ca.crt, host.crt, host.key}; empty: hosts prove nothing
  data_protection data = data_protection::encrypted;
};

/// What a run may leave on disk.
struct run {
  std::uint32_t keep_ledger_mb = 1024; ///< its parts together; old ones are dropped; 0: no limit, [0, 1048576]
  std::uint32_t keep_checkpoints = 3;  ///< the newest, [1, 1000]
};

using settings::file_error;
using settings::position;
using settings::to_string;

/// Whether only hosts of the file may take part, or also any that holds a certificate of the cluster.
enum class membership_kind : std::uint8_t { listed, open };

struct cluster_file {
  std::string path; ///< as given
  std::string name;
  std::uint64_t seed = 1;
  std::uint32_t detect_ms = 1000; ///< [100, 60000]
  membership_kind membership = membership_kind::listed;
  std::uint32_t workers_min = 0;      ///< training begins with as many; 0: all of the file, [0, 4096]
  std::uint32_t workers_max = 0;      ///< more are told to wait; 0: as many as the file names, [0, 4096]
  std::uint32_t host_places_max = 16; ///< of an open cluster, that one host may have, [1, 4096]
  std::string secret_file;            ///< ignored, but in the digests of earlier runs
  bool insecure = false;              ///< a listener may bind beyond loopback without authentication; also --insecure
  cluster::training training;
  cluster::batch batch;
  cluster::arbitrator arbitrator;
  cluster::supervision supervision;
  cluster::reward reward;
  cluster::ppo ppo;
  std::vector<telemetry_source> telemetry_sources = {telemetry_source::ebpf, telemetry_source::tcp_info,
                                                     telemetry_source::procfs, telemetry_source::nvml};
  cluster::dashboard dashboard;
  cluster::security security;
  cluster::run run;
  cluster::simulation simulation;
  /// The machines, 1 to 8192; one arbitrator or as many as replicas, 1 to 4096 workers.
  std::vector<cluster::host> hosts;
  /// Where the file says what: "training", "training.epochs", "host[0].port", "host[0].emulate[1].at_seconds".
  /// What the file leaves to its default has no entry.
  settings::position_map positions;
  /// Fields that the command line has changed, by the same names, each with its option: "--set training.epochs=2".
  std::map<std::string, std::string> set_by;

  /// A host, or one of several workers of one.
  const cluster::host* find(const std::string& name) const;
  /// The hosts with a worker role in the file's order, or their slots: a worker's position is its rank.
  std::vector<const cluster::host*> workers() const;
  /// Whom generations are made of, by rank: the workers, and behind them the hosts that only serve, in the file's
  /// order.
  std::vector<const cluster::host*> members() const;
  /// The only arbitrator, or the first of the replicas.
  const cluster::host& arbitrator_host() const;
  /// All of them, in the file's order.
  std::vector<const cluster::host*> arbitrators() const;
  /// Most samples per step of each worker, by rank: batch.highest, or less where the host's memory says so.
  std::vector<std::uint32_t> highest_by_rank() const;
  /// Whether workers share the global batch by their paces at every step, between two decisions: arbitrator.balance,
  /// and where it is automatic under the policies that choose a global batch, then but for those who share cores
  /// (session/core_sharing.hpp). Never where decisions are only shown.
  bool balances() const;
  /// Whether training begins with less than the initial batch size where the learning rate is right there: the policy
  /// goes by the noise scale. Early on steps count, not samples (Merrill et al., arXiv 2505.23971), and the policy has
  /// them grow as soon as the noise scale speaks for it, or is not to be had.
  bool begins_small() const;
  /// Batch size of a worker's first steps: the initial one, or a quarter of that, within the limits.
  std::uint32_t first_batch() const;
  /// reward.kind, with `automatic` resolved.
  reward_kind reward_in_force() const;
  /// Whether the file or the command line has a value for a field.
  bool gives(const std::string& field) const { return positions.contains(field) || set_by.contains(field); }
  /// The place of a field's value or, where it is left to its default, of its section's header.
  cluster::position where(const std::string& field) const;
  /// FNV-1a over the resolved values (not `path`, `positions`, `set_by`, `security` and `run`, which change nothing of
  /// what a run computes): two hosts that read different files differ here.
  std::uint64_t digest() const;
};

// The names that a cluster file uses for them.
std::string_view to_string(role value);
/// "worker, arbitrator".
std::string roles_text(const host& of);
std::string_view to_string(model_kind value);
std::string_view to_string(const model_choice& value);
std::string_view to_string(dataset_kind value);
std::string_view to_string(compression_kind value);
std::string_view to_string(exchange_kind value);
std::string_view to_string(data_protection value);
std::string_view to_string(page_tls value);
std::string_view to_string(policy_kind value);
std::string_view to_string(policy_mode value);
std::string_view to_string(arbitration_topology value);

/// Why a host may not listen on its address, or empty when it may: loopback (127.0.0.0/8, ::1, localhost) always,
/// anything else only where peers prove who they are by keys, or the file or the command line says insecure.
std::string refuse_listen(const cluster_file& file, const host& listener, bool insecure_flag);

/// The outcome of reading a cluster file: the errors are all that were found, in the file's order, at most 20.
struct parse_result {
  cluster_file file; ///< holds only when `errors` is empty
  std::vector<file_error> errors;
};

/// Parses `text` as the cluster file called `path`. Touches no file and no socket.
parse_result parse_cluster_text(const std::string& text, const std::string& path);
/// Reads and parses the file at `path`.
parse_result read_cluster_file(const std::string& path);

/// An error at the place of `field` (see `cluster_file::positions`), or at the option that has set it.
file_error error_at(const cluster_file& file, const std::string& field, const std::string& message);

/// `path` as the file means it: a relative one starts at the directory of the cluster file. Empty stays empty.
std::string resolve_path(const cluster_file& file, const std::string& path);
/// Makes the model's, policy's, profiles' and the workload's paths absolute, so that the file may be written elsewhere.
void make_paths_absolute(cluster_file& file);

/// The resolved file as TOML, every field written out: parsing it gives the same digest.
std::string to_toml(const cluster_file& file);

/// The same without the sections that the digest leaves out.
std::string to_digested_toml(const cluster_file& file);

/// Every field with its type, range, default and meaning, as the Markdown tables of docs/cluster-file.md.
std::string describe_fields_markdown();

enum class plan_detail : std::uint8_t {
  summary, ///< hosts, what differs from the defaults, links and arbitrators
  all      ///< every field, the derived time-outs too
};
/// The plan that a cluster file stands for, as the text that `dynamix-node check` prints.
std::string describe_plan(const cluster_file& file, plan_detail detail = plan_detail::all);
/// The same as JSON.
std::string describe_plan_json(const cluster_file& file);

} // namespace dynamix::cluster
