#include "cluster/fields.hpp"

#include "settings/rows.hpp"

#include <algorithm>
#include <array>

namespace dynamix::cluster {
namespace {

using settings::choice_row;
using settings::closed;
using settings::in;
using settings::open_low;
using settings::presence;
using settings::text_row;
using settings::text_rule;

// In the order of the enumerations in cluster_file.hpp.
constexpr std::array<std::string_view, 2> trainer_names = {"built-in", "client"};
constexpr std::array<std::string_view, 11> model_names = {
    "lenet", "vgg11", "vgg13", "vgg16", "vgg19", "resnet18", "resnet34", "resnet50", "transformer", "lstm", "ncf"};
constexpr std::array<std::string_view, 7> dataset_names = {"fashion-mnist", "fashion-mnist-32", "cifar10",  "cifar100",
                                                           "text",          "interactions",     "movielens"};
constexpr std::array<std::string_view, 3> vocabulary_names = {"bytes", "words", "byte-pairs"};
constexpr std::array<std::string_view, 3> optimizer_names = {"sgd", "adam", "adamw"};
constexpr std::array<std::string_view, 4> rule_names = {"constant", "linear", "square-root", "adascale"};
constexpr std::array<std::string_view, 2> normalization_names = {"none", "group"};
constexpr std::array<std::string_view, 2> schedule_names = {"constant", "cosine"};
constexpr std::array<std::string_view, 2> augmentation_names = {"none", "crop-flip"};
constexpr std::array<std::string_view, 2> precision_names = {"float32", "bf16"};
constexpr std::array<std::string_view, 2> nan_names = {"stop", "drop"};
constexpr std::array<std::string_view, 11> policy_names = {"static",  "static-best", "lb-bsp",    "omnilearn",
                                                           "goodput", "ppo",         "ppo-add",   "ppo-simple",
                                                           "oracle",  "step-oracle", "stigmergic"};
constexpr std::array<std::string_view, 2> mode_names = {"train", "infer"};
constexpr std::array<std::string_view, 3> balance_names = {"auto", "on", "off"};
constexpr std::array<std::string_view, 3> arbitration_names = {"central", "tree", "auto"};
constexpr std::array<std::string_view, 4> source_names = {"ebpf", "tcp_info", "procfs", "nvml"};
constexpr std::array<std::string_view, 3> device_names = {"auto", "cpu", "cuda"};
constexpr std::array<std::string_view, 3> exchange_names = {"ring", "parameter-server", "auto"};
constexpr std::array<std::string_view, 5> compression_names = {"none", "union", "gather", "lhc", "auto"};
constexpr std::array<std::string_view, 2> membership_names = {"listed", "open"};
constexpr std::array<std::string_view, 2> data_protection_names = {"encrypted", "clear"};
constexpr std::array<std::string_view, 3> page_tls_names = {"off", "host", "file"};
constexpr std::array<std::string_view, 2> topology_names = {"ring", "parameter-server"};
constexpr std::array<std::string_view, 3> reward_names = {"auto", "progress", "paper"};

// Exact as a double and in JSON.
constexpr double highest_seed = 9007199254740992.0;
constexpr settings::range below_1 = {0, 1, false, true};

bool is_filled_path(const std::string& text) {
  return !text.empty() && is_path(text);
}

bool is_listen(const std::string& text) {
  return text.empty() || parse_listen_address(text).has_value();
}

bool is_model(const std::string& text) {
  return std::ranges::find(model_names, text) != model_names.end() ||
         (text.starts_with("script:") && text.size() > std::string_view("script:").size() && is_path(text));
}

constexpr text_rule model_rule = {is_model, "one of \"lenet\", \"vgg11\", \"vgg13\", \"vgg16\", \"vgg19\", "
                                            "\"resnet18\", \"resnet34\", \"resnet50\", \"transformer\", \"lstm\", "
                                            "\"ncf\", or "
                                            "\"script:FILE\""};
constexpr text_rule listen_rule = {is_listen,
                                   "an address and a port such as \"127.0.0.1:8080\" or \"[::1]:8080\", or empty"};
constexpr text_rule path_rule = {is_filled_path, "a path of 1 to 4096 characters"};

constexpr auto training_section = &cluster_file::training;
constexpr auto batch_section = &cluster_file::batch;
constexpr auto arbitrator_section = &cluster_file::arbitrator;
constexpr auto supervision_section = &cluster_file::supervision;
constexpr auto reward_section = &cluster_file::reward;
constexpr auto ppo_section = &cluster_file::ppo;
constexpr auto dashboard_section = &cluster_file::dashboard;
constexpr auto security_section = &cluster_file::security;
constexpr auto run_section = &cluster_file::run;
constexpr auto simulation_section = &cluster_file::simulation;

const std::vector<settings::field<cluster_file>> section_rows = {
    text_row("cluster", "name", in<&cluster_file::name>, "Name of the cluster; a part of the run directory's name.",
             name_rule, presence::required),
    {"cluster", "seed", in<&cluster_file::seed>,
     "Seed of everything random: parameters, sampling, the policy's choices.", closed(0, highest_seed)},
    {"cluster", "detect_ms", in<&cluster_file::detect_ms>,
     "How soon a silent peer is to be noticed, in milliseconds; every time-out follows from it.", closed(100, 60000)},
    choice_row("cluster", "membership", in<&cluster_file::membership>,
               "Who may train: the hosts of this file, or also others, which join as "
               "[launching.md](launching.md#hosts-that-come-and-go) describes.",
               membership_names),
    {"cluster", "workers_min", in<&cluster_file::workers_min>,
     "Training begins when so many workers have come; 0: all of the file. The global batch of an open cluster begins "
     "with `batch.initial` on so many.",
     closed(0, 4096)},
    {"cluster", "workers_max", in<&cluster_file::workers_max>,
     "Most workers of an open cluster, with those of the file; more are told to wait. 0 where it is not open.",
     closed(0, 4096)},
    {"cluster", "host_places_max", in<&cluster_file::host_places_max>,
     "Most workers that one host which this file does not name may bring to an open cluster: it could otherwise take "
     "every place. Its others are told to wait.",
     closed(1, 4096)},
    text_row("cluster", "secret_file", in<&cluster_file::secret_file>,
             "Ignored: leave it out. Replicas of the arbitrator speak by keys alone; files of earlier runs have it.",
             optional_path_rule),
    {"cluster", "insecure", in<&cluster_file::insecure>,
     "Lets hosts without keys listen beyond loopback, although nothing authenticates a peer, and has `local` make no "
     "keys; the same as `--insecure`."},

    choice_row(
        "training", "trainer", in<training_section, &training::trainer>,
        "Who computes gradients: dynamix-node itself, or a program of the user's, which joins through the SDK as the "
        "host's client. For a client, `model` to `normalization`, `data_path`, `momentum` and whatever else its own "
        "program "
        "decides have no meaning.",
        trainer_names),
    text_row("training", "model", in<training_section, &training::model, &model_choice::name>,
             "The network to train; `script:FILE` is a TorchScript module ([models.md](models.md)), a relative path "
             "starts at "
             "this file's directory.",
             model_rule),
    {"training", "width", in<training_section, &training::width>,
     "Factor on the width of the layers of vgg, resnet, transformer and lstm; the other models take 1.",
     closed(0.0625, 4)},
    choice_row("training", "normalization", in<training_section, &training::normalization>,
               "Group norm after each convolution of lenet or vgg, or none; resnets always have it. Batch norm is not "
               "offered: "
               "unequal batches would skew it.",
               normalization_names),
    {"training", "layers", in<training_section, &training::layers>, "Layers of the transformer or the lstm.",
     closed(1, 64)},
    {"training", "heads", in<training_section, &training::heads>, "Attention heads of each layer of the transformer.",
     closed(1, 64)},
    {"training", "context", in<training_section, &training::context>, "Tokens of a sample of text.", closed(2, 8192)},
    choice_row(
        "training", "dataset", in<training_section, &training::dataset>,
        "The data set to train on. fashion-mnist-32 has the images as 3x32x32, text the files below `data_path`. The "
        "interactions are synthetic, for ncf: no files are read; movielens has those of MovieLens's ratings.csv.",
        dataset_names),
    choice_row(
        "training", "vocabulary", in<training_section, &training::vocabulary>,
        "What a token of text is: a byte, a word or sign, or a run of bytes that is frequent in the training text.",
        vocabulary_names),
    {"training", "vocabulary_size", in<training_section, &training::vocabulary_size>,
     "Tokens of a vocabulary of words or byte pairs. The most frequent words have one each, and one stands for all "
     "others; byte pairs need 257 or more.",
     closed(2, 65536)},
    {"training", "sampled_softmax", in<training_section, &training::sampled_softmax>,
     "Words that the lstm's loss sets against the right ones, drawn anew for each step and worker, in place of the "
     "whole vocabulary; its embeddings' gradients are then sparse. 0, or as many as the vocabulary has: the whole "
     "vocabulary.",
     closed(0, 65536)},
    {"training", "interactions_scale", in<training_section, &training::interactions_scale>,
     "Users, items and interactions of the data set interactions, as a share of MovieLens-20M's.", open_low(1)},
    text_row(
        "training", "data_path", in<training_section, &training::data_path>,
        "Directory of the data set's files, of text and movielens also a single file; a relative one starts at the "
        "working directory.",
        path_rule),
    choice_row("training", "optimizer", in<training_section, &training::optimizer>, "The optimiser.", optimizer_names),
    {"training", "learning_rate", in<training_section, &training::learning_rate>,
     "Learning rate for the global batch with `batch.initial` on every worker.", open_low(10)},
    choice_row("training", "rule", in<training_section, &training::rule>,
               "How the learning rate follows the global batch.", rule_names),
    choice_row("training", "schedule", in<training_section, &training::schedule>,
               "The learning rate over the samples of training: as the rule has it, or falling to 0 by half a cosine.",
               schedule_names),
    {"training", "warmup_samples", in<training_section, &training::warmup_samples>,
     "Samples of all workers over which the learning rate rises from 0.", closed(0, 1e12)},
    {"training", "label_smoothing", in<training_section, &training::label_smoothing>,
     "Share of each target that is spread over all classes, in training only.", below_1},
    {"training", "ema_samples", in<training_section, &training::ema_samples>,
     "Evaluates an exponential moving average of the weights over about so many samples of all workers; 0: the weights "
     "themselves.",
     closed(0, 1e12)},
    {"training", "loader_threads", in<training_section, &training::loader_threads>,
     "Threads of a worker that prepare the next step's batch while this one is computed; 0: each is prepared in its "
     "turn.",
     closed(0, 64)},
    choice_row("training", "augmentation", in<training_section, &training::augmentation>,
               "Changes of training images, drawn anew each epoch: a crop of the image in a border of 4 pixels and a "
               "reflection.",
               augmentation_names),
    {"training", "micro_batch", in<training_section, &training::micro_batch>,
     "Most samples that a worker computes at once; the gradients of a larger batch are accumulated. 0: all. Where "
     "memory does not hold so many, it is lowered while training.",
     closed(0, highest_batch)},
    {"training", "memory_mb", in<training_section, &training::memory_mb>,
     "MB of memory that a worker's process may take, without file-backed pages: a step that would need more is "
     "computed in parts. 0: what its control group allows, or no limit.",
     closed(0, 1e7)},
    {"training", "momentum", in<training_section, &training::momentum>, "Momentum of sgd.", below_1},
    {"training", "weight_decay", in<training_section, &training::weight_decay>, "Weight decay.", closed(0, 1)},
    {"training", "clip_norm", in<training_section, &training::clip_norm>,
     "Largest norm of the reduced gradient; 0 clips nothing.", closed(0, 1e6)},
    choice_row("training", "nan", in<training_section, &training::nan>,
               "A step whose gradient is not finite: all workers end training before it, or drop it, up to 50 in a "
               "row, and go "
               "on.",
               nan_names),
    {"training", "epochs", in<training_section, &training::epochs>, "Passes over the data set.", open_low(10000)},
    {"training", "target_accuracy", in<training_section, &training::target_accuracy>,
     "Test accuracy at which training stops; 0 goes on to the last epoch.", closed(0, 1)},
    {"training", "patience", in<training_section, &training::patience>,
     "Evaluations in a row without a better test accuracy after which training stops; 0 goes on to the last epoch. "
     "Not in simulated runs.",
     closed(0, 1e6)},
    {"training", "evaluate_every_epochs", in<training_section, &training::evaluate_every_epochs>,
     "Epochs between evaluations on the test set.", open_low(1000)},
    {"training", "evaluate_samples", in<training_section, &training::evaluate_samples>,
     "Most samples of an evaluation, each n-th of the test set; 0 takes all. Not in simulated runs.",
     closed(0, 4294967295)},
    {"training", "checkpoint_every_epochs", in<training_section, &training::checkpoint_every_epochs>,
     "Epochs between checkpoints.", open_low(1000)},
    choice_row("training", "device", in<training_section, &training::device>,
               "Where a worker computes; auto uses CUDA where LibTorch has it.", device_names),
    {"training", "threads", in<training_section, &training::threads>, "Threads that a worker computes with.",
     closed(1, 256)},
    choice_row("training", "precision", in<training_section, &training::precision>,
               "What forward passes compute in: float32, or bfloat16 where PyTorch's autocast holds that to be safe. "
               "Parameters, "
               "gradients and their sums stay in float32.",
               precision_names),
    choice_row("training", "exchange", in<training_section, &training::exchange>,
               "Who sums gradients: the workers in a ring; all of them as servers, each of a share that suits its "
               "measured link; "
               "or the faster of the two, as predicted in every generation and then measured.",
               exchange_names),
    choice_row(
        "training", "compression", in<training_section, &training::compression>,
        "How the sparse gradients of embeddings are summed, without loss: as all others; over the union of the rows "
        "that "
        "any worker touched; by gathering each worker's rows; by sketches that are added without decompressing them; "
        "or by whichever of these is measured to be the fastest.",
        compression_names),
    {"training", "top_k", in<training_section, &training::top_k>,
     "Lossy: the share of the dense gradients, the largest ones, that a step sums; the rest is added to the next "
     "step's. Gradients in float64 and buckets of less than 64 KiB are left alone. 0 sums all.",
     below_1},
    {"training", "bucket_kib", in<training_section, &training::bucket_kib>,
     "KiB of gradients that are reduced at once.", closed(16, 262144)},

    {"batch", "initial", in<batch_section, &batch::initial>,
     "Samples per worker per step that `learning_rate` is for; under goodput and ppo with adascale or square-root, "
     "training begins with a quarter of it, at least `lowest`.",
     closed(1, highest_batch)},
    {"batch", "lowest", in<batch_section, &batch::lowest>, "Fewest samples per worker per step.",
     closed(1, highest_batch)},
    {"batch", "highest", in<batch_section, &batch::highest>, "Most samples per worker per step.",
     closed(1, highest_batch)},

    choice_row("arbitrator", "policy", in<arbitrator_section, &arbitrator::policy>,
               "What decides batch sizes; under stigmergic nobody does, and the workers choose by their paces and the "
               "gradient "
               "noise.",
               policy_names),
    choice_row("arbitrator", "mode", in<arbitrator_section, &arbitrator::mode>,
               "Whether the policy learns while it decides.", mode_names),
    text_row(
        "arbitrator", "policy_file", in<arbitrator_section, &arbitrator::policy_file>,
        "Parameters to start from. Left out, `ppo` starts live from those that come with the program, where they fit; "
        "empty "
        "draws fresh ones from the seed. A relative path starts at this file's directory.",
        optional_path_rule),
    {"arbitrator", "window_steps", in<arbitrator_section, &arbitrator::window_steps>,
     "Steps per window, after which a decision is made (k).", closed(1, 10000)},
    {"arbitrator", "actions", in<arbitrator_section, &arbitrator::actions>,
     "What a decision of ppo-add and ppo-simple may add to a batch size: 2 to 64 distinct numbers, one of them 0.",
     closed(-highest_batch, highest_batch)},
    {"arbitrator", "scales", in<arbitrator_section, &arbitrator::scales>,
     "What ppo may make of the planned step time, in percent: 2 to 16 distinct numbers, one of them 100.",
     closed(10, 1000)},
    {"arbitrator", "static_batch", in<arbitrator_section, &arbitrator::static_batch>,
     "Every worker's batch size under static-best; 0 is batch.initial. `compare` finds the best.",
     closed(0, highest_batch)},
    {"arbitrator", "guard", in<arbitrator_section, &arbitrator::guard>,
     "Replaces a learned policy's choices that measured step times predict to be slower."},
    {"arbitrator", "guard_margin", in<arbitrator_section, &arbitrator::guard_margin>,
     "Share of the predicted goodput that a learned policy may give away before the guard acts.", closed(0, 1)},
    {"arbitrator", "shadow", in<arbitrator_section, &arbitrator::shadow>,
     "Decides and logs, and changes no batch size; the same as `--shadow`."},
    choice_row(
        "arbitrator", "balance", in<arbitrator_section, &arbitrator::balance>,
        "Workers share the global batch by their own paces at every step, between two decisions (policy/balance.hpp). "
        "\"auto\": under ppo and goodput, but for workers that share cores with each other, which is measured; and "
        "under "
        "stigmergic.",
        balance_names),
    text_row("arbitrator", "replicas", in<arbitrator_section, &arbitrator::replicas>,
             "The hosts with the role arbitrator where there are 3 or 5 that stand in for each other; empty for a "
             "single one.",
             name_rule),
    choice_row(
        "arbitrator", "topology", in<arbitrator_section, &arbitrator::topology>,
        "One arbitrator for all workers, or a tree of shards under it; up to fanout workers the two are the same. "
        "\"auto\" "
        "is the tree where the file's hosts can hold it, and otherwise the one arbitrator.",
        arbitration_names),
    {"arbitrator", "fanout", in<arbitrator_section, &arbitrator::fanout>,
     "Workers of a shard, and shards under one above.", closed(2, 256)},
    text_row("arbitrator", "shards", in<arbitrator_section, &arbitrator::shards>,
             "The hosts that hold the tree's shards; empty: planned, spread over the workers' hosts.", name_rule),
    {"arbitrator", "trajectory_kib", in<arbitrator_section, &arbitrator::trajectory_kib>,
     "KiB of sampled trajectories that reach the tree's root in one window.", closed(1, 65536)},

    {"supervision", "max_restarts", in<supervision_section, &supervision::max_restarts>,
     "How often an actor of a host, or a host process of `local`, is restarted within the period before it is given "
     "up.",
     closed(0, 1000)},
    {"supervision", "period_ms", in<supervision_section, &supervision::period_ms>, "That period, in milliseconds.",
     closed(1000, 3600000)},

    choice_row("reward", "kind", in<reward_section, &reward::kind>,
               "Log of goodput against the best that the measurements allow, or the paper's formula (alpha to eta); "
               "auto takes "
               "the first for ppo.",
               reward_names),
    {"reward", "alpha", in<reward_section, &reward::alpha>, "Weight of the gain in batch accuracy.", closed(0, 1000)},
    {"reward", "beta", in<reward_section, &reward::beta>, "Cost of a second of iteration time.", closed(0, 1000)},
    {"reward", "delta", in<reward_section, &reward::delta>, "Cost of log2(batch) - 5.", closed(0, 1000)},
    {"reward", "eta", in<reward_section, &reward::eta>,
     "Cost of the gradient's variance; used with adaptive optimisers only.", closed(0, 1000)},

    {"ppo", "learning_rate", in<ppo_section, &ppo::learning_rate>, "Of Adam on the policy's parameters.", open_low(1)},
    {"ppo", "discount", in<ppo_section, &ppo::discount>, "Discount of later rewards (gamma).", closed(0, 1)},
    {"ppo", "gae_lambda", in<ppo_section, &ppo::gae_lambda>, "Lambda of the advantage estimate.", closed(0, 1)},
    {"ppo", "clip", in<ppo_section, &ppo::clip>, "Clipping of the probability ratio (epsilon).", open_low(1)},
    {"ppo", "entropy_coefficient", in<ppo_section, &ppo::entropy_coefficient>, "Weight of the entropy bonus.",
     closed(0, 1)},
    {"ppo", "value_coefficient", in<ppo_section, &ppo::value_coefficient>, "Weight of the value loss.", closed(0, 10)},
    {"ppo", "max_gradient_norm", in<ppo_section, &ppo::max_gradient_norm>, "Largest norm of the policy's gradient.",
     open_low(1000)},
    {"ppo", "horizon", in<ppo_section, &ppo::horizon>, "Windows per worker before an update.", closed(2, 4096)},
    {"ppo", "epochs", in<ppo_section, &ppo::epochs>, "Passes over a rollout.", closed(1, 100)},
    {"ppo", "minibatches", in<ppo_section, &ppo::minibatches>,
     "Parts of a rollout; at most horizon times the number of workers.", closed(1, 1024)},
    {"ppo", "hidden", in<ppo_section, &ppo::hidden>,
     "Units a hidden layer; with more, a learner's file could not be read again.", closed(4, 768)},
    {"ppo", "annealing_updates", in<ppo_section, &ppo::annealing_updates>,
     "Updates over which the learning rate falls to 0; 0 keeps it.", closed(0, 1e6)},

    choice_row(
        "telemetry", "sources", in<&cluster_file::telemetry_sources>,
        "What may measure network (ebpf, tcp_info), machine (ebpf, procfs) and accelerator (nvml); each host uses its "
        "best source, and signals without one are ignored.",
        source_names),

    text_row("dashboard", "listen", in<dashboard_section, &dashboard::listen>,
             "Where the arbitrator's host serves the live page and the metrics; empty: nowhere.", listen_rule),
    text_row("dashboard", "token_file", in<dashboard_section, &dashboard::token_file>,
             "File with the bearer token that clients must show; needed beyond loopback. A relative path starts at "
             "this file's "
             "directory.",
             optional_path_rule),

    choice_row(
        "dashboard", "tls", in<dashboard_section, &dashboard::tls>,
        "Encrypts the page: by the host's own certificate of security.keys, which programs can check against its "
        "ca.crt "
        "and "
        "browsers do not take, or by the certificate in a file, which may be anyone's (ECDSA or RSA for browsers).",
        page_tls_names),
    text_row("dashboard", "certificate_file", in<dashboard_section, &dashboard::certificate_file>,
             "For tls = \"file\": the certificate in PEM, followed by its chain. A relative path starts at this file's "
             "directory.",
             optional_path_rule),
    text_row("dashboard", "key_file", in<dashboard_section, &dashboard::key_file>,
             "The certificate's private key in PEM, readable by its owner only.", optional_path_rule),

    text_row(
        "security", "keys", in<security_section, &security::keys>,
        "Directory with the keys of hosts (`dynamix-node keys`), the same on every host; host NAME has its own in "
        "hosts/NAME. With them hosts take connections (control, Raft's, gradients) only from hosts of this file that "
        "prove who they are. A relative path starts at this file's directory.",
        optional_path_rule),
    choice_row(
        "security", "data", in<security_section, &security::data>,
        "How gradients travel between workers whose hosts have keys, the same on all of them. With \"clear\" workers "
        "prove who they are as ever, and what follows is neither encrypted nor authenticated: whoever is on the path "
        "between two of them can read gradients and change them unnoticed. For isolated networks only.",
        data_protection_names),

    {"run", "keep_ledger_mb", in<run_section, &run::keep_ledger_mb>,
     "What the ledger may take up in MB; 0 is no limit. It grows in parts: full ones are compressed, and when there "
     "are "
     "too many the oldest are dropped, all but the first row of the run. What they hold is then explained and replayed "
     "no "
     "more.",
     closed(0, 1048576)},
    {"run", "keep_checkpoints", in<run_section, &run::keep_checkpoints>,
     "How many of the newest checkpoints a run keeps, and of those that a host writes once it has lost its peers.",
     closed(1, 1000)},

    // What only the simulator reads.
    text_row("simulation", "profile", in<simulation_section, &simulation::profile>,
             "Device profile of hosts that name none; a relative path starts at this file's directory.",
             optional_path_rule),
    text_row("simulation", "workload", in<simulation_section, &simulation::workload>,
             "How the model learns; a relative path starts at this file's directory.", optional_path_rule),
    {"simulation", "cores", in<simulation_section, &simulation::cores>,
     "Cores that all hosts share; 0: each computes on its own.", closed(0, 65536)},
    choice_row("simulation", "topology", in<simulation_section, &simulation::topology>,
               "Who sums gradients: those that training.exchange says, or one more host, a server with a link of "
               "bandwidth_mbit.",
               topology_names),
    {"simulation", "bandwidth_mbit", in<simulation_section, &simulation::bandwidth_mbit>,
     "Of a host's link, in Mbit/s each way.", closed(0.001, 1e7)},
    {"simulation", "latency_us", in<simulation_section, &simulation::latency_us>, "One way, in microseconds.",
     closed(0, 1e7)},
    {"simulation", "overlap", in<simulation_section, &simulation::overlap>,
     "Overlap of computing and exchange, g in T = (T_grad^g + T_sync^g)^(1/g).", closed(1, 10)},
    {"simulation", "noise", in<simulation_section, &simulation::noise>,
     "Standard deviation of the logarithm of a step's computing time.", closed(0, 2)},
    {"simulation", "hiccup_rate", in<simulation_section, &simulation::hiccup_rate>,
     "Share of a host's windows that take 1.3 to 4 times as long.", closed(0, 1)},
    {"simulation", "slow_every_seconds", in<simulation_section, &simulation::slow_every_seconds>,
     "Mean time between a host's slow-downs; 0: none.", closed(0, no_limit_seconds)},
    {"simulation", "slow_seconds", in<simulation_section, &simulation::slow_seconds>, "Mean duration of a slow-down.",
     open_low(no_limit_seconds)},
    {"simulation", "slow_factor", in<simulation_section, &simulation::slow_factor>,
     "The worst slow-down; factors are log-uniform from 1.25 on.", closed(1.25, 100)},
    {"simulation", "congest_every_seconds", in<simulation_section, &simulation::congest_every_seconds>,
     "Mean time between congestions of a host's link; 0: none.", closed(0, no_limit_seconds)},
    {"simulation", "congest_seconds", in<simulation_section, &simulation::congest_seconds>,
     "Mean duration of a congestion.", open_low(no_limit_seconds)},
    {"simulation", "congest_factor", in<simulation_section, &simulation::congest_factor>,
     "The worst congestion: bandwidth divided by so much.", closed(1.25, 1000)},
    {"simulation", "loss_rate", in<simulation_section, &simulation::loss_rate>, "Share of segments sent again.",
     closed(0, 0.5)},
    {"simulation", "randomise", in<simulation_section, &simulation::randomise>,
     "How far train-policy's environments vary from this file.", closed(0, 1)},
};

} // namespace

std::span<const settings::field<cluster_file>> file_fields() {
  return section_rows;
}

std::string_view to_string(model_kind value) {
  return value == model_kind::script ? "script" : model_names.at(static_cast<std::size_t>(value));
}
std::string_view to_string(const model_choice& value) {
  return value.name;
}
model_choice::model_choice(model_kind kind) : name(to_string(kind)) {}
model_choice::operator model_kind() const {
  return static_cast<model_kind>(std::ranges::find(model_names, name) - model_names.begin());
}
std::string_view to_string(dataset_kind value) {
  return dataset_names.at(static_cast<std::size_t>(value));
}
std::string_view to_string(compression_kind value) {
  return compression_names.at(static_cast<std::size_t>(value));
}
std::string_view to_string(exchange_kind value) {
  return exchange_names.at(static_cast<std::size_t>(value));
}
std::string_view to_string(data_protection value) {
  return data_protection_names.at(static_cast<std::size_t>(value));
}
std::string_view to_string(page_tls value) {
  return page_tls_names.at(static_cast<std::size_t>(value));
}
std::string_view to_string(policy_kind value) {
  return policy_names.at(static_cast<std::size_t>(value));
}
std::string_view to_string(policy_mode value) {
  return mode_names.at(static_cast<std::size_t>(value));
}
std::string_view to_string(arbitration_topology value) {
  return arbitration_names.at(static_cast<std::size_t>(value));
}

} // namespace dynamix::cluster
