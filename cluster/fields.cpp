#include "cluster/fields.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cctype>

namespace dynamix::cluster {
namespace {

// In the order of the enumerations in cluster_file.hpp.
constexpr std::array<std::string_view, 2> role_names = {"worker", "arbitrator"};
constexpr std::array<std::string_view, 2> model_names = {"lenet", "vgg11"};
constexpr std::array<std::string_view, 3> dataset_names = {"fashion-mnist", "cifar10", "cifar100"};
constexpr std::array<std::string_view, 3> optimizer_names = {"sgd", "adam", "adamw"};
constexpr std::array<std::string_view, 4> rule_names = {"constant", "linear", "square-root", "adascale"};
constexpr std::array<std::string_view, 2> normalization_names = {"none", "group"};
constexpr std::array<std::string_view, 6> policy_names = {"static",  "lb-bsp", "omnilearn",
                                                          "goodput", "ppo",    "ppo-simple"};
constexpr std::array<std::string_view, 2> mode_names = {"train", "infer"};
constexpr std::array<std::string_view, 2> source_names = {"tcp_info", "procfs"};
constexpr std::array<std::string_view, 3> device_names = {"auto", "cpu", "cuda"};
constexpr std::array<std::string_view, 1> exchange_names = {"ring"};

constexpr double no_limit_seconds = 1e9;
// Exact as a double and in JSON.
constexpr double highest_seed = 9007199254740992.0;
constexpr double highest_batch = 1048576;

bool is_name(const std::string& text) {
  const auto fits = [](unsigned char c) { return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-'; };
  return !text.empty() && text.size() <= 64 && std::isalnum(static_cast<unsigned char>(text.front())) != 0 &&
         std::all_of(text.begin(), text.end(), fits);
}

// A terminal escape or a line break in a path would spoil every message that shows it.
bool is_path(const std::string& text) {
  return text.size() <= 4096 &&
         std::none_of(text.begin(), text.end(), [](unsigned char c) { return c < 32 || c == 127; });
}

bool is_filled_path(const std::string& text) {
  return !text.empty() && is_path(text);
}

constexpr text_rule name_rule = {
    is_name, "a name of 1 to 64 letters, digits, '.', '_' and '-' that begins with a letter or digit"};
constexpr text_rule address_rule = {is_address, "an IPv4 or IPv6 address or a host name that peers can connect to"};
constexpr text_rule path_rule = {is_filled_path, "a path of 1 to 4096 characters"};
constexpr text_rule optional_path_rule = {is_path, "a path of at most 4096 characters, or empty"};

template <class T>
target refer(T& value) {
  if constexpr (std::is_enum_v<T>)
    return enumeration{reinterpret_cast<std::uint8_t*>(&value)}; // every enumeration of the file is a std::uint8_t
  else
    return &value;
}

/// The locators: of the file itself, and of a member of one of its sections.
template <auto Member>
target top(cluster_file& file) {
  return refer(file.*Member);
}
template <auto Section, auto Member>
target in(cluster_file& file) {
  return refer(file.*Section.*Member);
}
template <auto Member>
target in_host(host_entry& entry) {
  return refer(entry.host.*Member);
}

constexpr auto training_section = &cluster_file::training;
constexpr auto batch_section = &cluster_file::batch;
constexpr auto arbitrator_section = &cluster_file::arbitrator;
constexpr auto reward_section = &cluster_file::reward;
constexpr auto ppo_section = &cluster_file::ppo;

constexpr range open_low(double high) {
  return {0, high, true, false};
}
constexpr range closed(double low, double high) {
  return {low, high, false, false};
}

const std::vector<field<cluster_file>> all_file_fields = {
    {"cluster",
     "name",
     top<&cluster_file::name>,
     "Name of the cluster; a part of the run directory's name.",
     {},
     {},
     &name_rule,
     true},
    {"cluster", "seed", top<&cluster_file::seed>,
     "Seed of everything random: parameters, sampling, the policy's choices.", closed(0, highest_seed)},
    {"cluster", "detect_ms", top<&cluster_file::detect_ms>,
     "How soon a silent peer is to be noticed, in milliseconds; every time-out follows from it.", closed(100, 60000)},
    {"cluster", "insecure", top<&cluster_file::insecure>,
     "Lets hosts listen beyond loopback, although nothing authenticates a peer; the same as `--insecure`."},

    {"training", "model", in<training_section, &training::model>, "The network to train.", {}, model_names},
    {"training", "width", in<training_section, &training::width>,
     "Factor on the width of vgg11's layers; lenet takes 1.", closed(0.0625, 4)},
    {"training",
     "normalization",
     in<training_section, &training::normalization>,
     "Group norm after each convolution, or none. Batch norm is not offered: unequal batches would skew it.",
     {},
     normalization_names},
    {"training", "dataset", in<training_section, &training::dataset>, "The data set to train on.", {}, dataset_names},
    {"training",
     "data_path",
     in<training_section, &training::data_path>,
     "Directory of the data set's files; a relative one starts at the working directory.",
     {},
     {},
     &path_rule},
    {"training", "optimizer", in<training_section, &training::optimizer>, "The optimiser.", {}, optimizer_names},
    {"training", "learning_rate", in<training_section, &training::learning_rate>,
     "Learning rate for the global batch with `batch.initial` on every worker.", open_low(10)},
    {"training",
     "rule",
     in<training_section, &training::rule>,
     "How the learning rate follows the global batch.",
     {},
     rule_names},
    {"training", "momentum", in<training_section, &training::momentum>, "Momentum of sgd.", {0, 1, false, true}},
    {"training", "weight_decay", in<training_section, &training::weight_decay>, "Weight decay.", closed(0, 1)},
    {"training", "clip_norm", in<training_section, &training::clip_norm>,
     "Largest norm of the reduced gradient; 0 clips nothing.", closed(0, 1e6)},
    {"training", "epochs", in<training_section, &training::epochs>, "Passes over the data set.", open_low(10000)},
    {"training", "target_accuracy", in<training_section, &training::target_accuracy>,
     "Test accuracy at which training stops; 0 goes on to the last epoch.", closed(0, 1)},
    {"training", "evaluate_every_epochs", in<training_section, &training::evaluate_every_epochs>,
     "Epochs between evaluations on the test set.", open_low(1000)},
    {"training", "checkpoint_every_epochs", in<training_section, &training::checkpoint_every_epochs>,
     "Epochs between checkpoints.", open_low(1000)},
    {"training",
     "device",
     in<training_section, &training::device>,
     "Where a worker computes; auto uses CUDA where LibTorch has it.",
     {},
     device_names},
    {"training", "threads", in<training_section, &training::threads>, "Threads that a worker computes with.",
     closed(1, 256)},
    {"training",
     "exchange",
     in<training_section, &training::exchange>,
     "How gradients are summed.",
     {},
     exchange_names},
    {"training", "bucket_kib", in<training_section, &training::bucket_kib>,
     "KiB of gradients that are reduced at once.", closed(16, 262144)},

    {"batch", "initial", in<batch_section, &batch::initial>, "Samples a worker and step at the start.",
     closed(1, highest_batch)},
    {"batch", "lowest", in<batch_section, &batch::lowest>, "Fewest samples a worker and step.",
     closed(1, highest_batch)},
    {"batch", "highest", in<batch_section, &batch::highest>, "Most samples a worker and step.",
     closed(1, highest_batch)},

    {"arbitrator",
     "policy",
     in<arbitrator_section, &arbitrator::policy>,
     "What decides batch sizes.",
     {},
     policy_names},
    {"arbitrator",
     "mode",
     in<arbitrator_section, &arbitrator::mode>,
     "Whether the policy learns while it decides.",
     {},
     mode_names},
    {"arbitrator",
     "policy_file",
     in<arbitrator_section, &arbitrator::policy_file>,
     "Parameters to start from; empty draws fresh ones from the seed.",
     {},
     {},
     &optional_path_rule},
    {"arbitrator", "window_steps", in<arbitrator_section, &arbitrator::window_steps>,
     "Steps a window, after which a decision is made (k).", closed(1, 10000)},
    {"arbitrator", "actions", in<arbitrator_section, &arbitrator::actions>,
     "What a decision may add to a batch size: 2 to 64 distinct numbers, one of them 0.",
     closed(-highest_batch, highest_batch)},

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
    {"ppo", "horizon", in<ppo_section, &ppo::horizon>, "Windows a worker before an update.", closed(2, 4096)},
    {"ppo", "epochs", in<ppo_section, &ppo::epochs>, "Passes over a rollout.", closed(1, 100)},
    {"ppo", "minibatches", in<ppo_section, &ppo::minibatches>,
     "Parts of a rollout; at most horizon times the number of workers.", closed(1, 1024)},
    {"ppo", "hidden", in<ppo_section, &ppo::hidden>, "Units a hidden layer.", closed(4, 1024)},

    {"telemetry",
     "sources",
     top<&cluster_file::telemetry_sources>,
     "What the policy sees of network and machine; an empty list masks both.",
     {},
     source_names},
};

const std::vector<field<host_entry>> all_host_fields = {
    {"host", "name", in_host<&host::name>, "Name of the host, unique in the file.", {}, {}, &name_rule, true},
    {"host", "address", in_host<&host::address>, "Where peers reach it and where it listens.", {}, {}, &address_rule},
    {"host",
     "port",
     in_host<&host::port>,
     "Port of its gateway, unique for its address.",
     closed(1, 65535),
     {},
     nullptr,
     true},
    {"host",
     "roles",
     in_host<&host::roles>,
     "What it does: worker, arbitrator or both. Exactly one host of the file is the arbitrator.",
     {},
     role_names},
    {"host", "compute_slowdown", [](host_entry& entry) -> target { return &entry.compute_slowdown; },
     "Emulates a slow host: computing takes this many times as long.", closed(1, 100)},
};

const std::vector<field<emulation>> all_emulation_fields = {
    {"host.emulate",
     "at_seconds",
     [](emulation& change) -> target { return &change.at_seconds; },
     "Seconds of training from which on the change holds; later than the entry before.",
     open_low(no_limit_seconds),
     {},
     nullptr,
     true},
    {"host.emulate",
     "compute_slowdown",
     [](emulation& change) -> target { return &change.compute_slowdown; },
     "The host's slow-down from then on.",
     closed(1, 100),
     {},
     nullptr,
     true},
};

} // namespace

std::span<const field<cluster_file>> file_fields() {
  return all_file_fields;
}
std::span<const field<host_entry>> host_fields() {
  return all_host_fields;
}
std::span<const field<emulation>> emulation_fields() {
  return all_emulation_fields;
}

host_entry to_entry(const host& from) {
  host_entry entry{from, 1};
  if (!from.emulate.empty() && from.emulate.front().at_seconds == 0) {
    entry.compute_slowdown = from.emulate.front().compute_slowdown;
    entry.host.emulate.erase(entry.host.emulate.begin());
  }
  return entry;
}

host from_entry(host_entry entry) {
  if (entry.compute_slowdown != 1)
    entry.host.emulate.insert(entry.host.emulate.begin(), {0, entry.compute_slowdown});
  return std::move(entry.host);
}

std::string_view to_string(role value) {
  return role_names.at(static_cast<std::size_t>(value));
}
std::string_view to_string(model_kind value) {
  return model_names.at(static_cast<std::size_t>(value));
}
std::string_view to_string(dataset_kind value) {
  return dataset_names.at(static_cast<std::size_t>(value));
}
std::string_view to_string(optimizer_kind value) {
  return optimizer_names.at(static_cast<std::size_t>(value));
}
std::string_view to_string(learning_rate_rule value) {
  return rule_names.at(static_cast<std::size_t>(value));
}
std::string_view to_string(policy_kind value) {
  return policy_names.at(static_cast<std::size_t>(value));
}
std::string_view to_string(policy_mode value) {
  return mode_names.at(static_cast<std::size_t>(value));
}

} // namespace dynamix::cluster
