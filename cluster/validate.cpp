#include "cluster/fields.hpp"
#include "cluster/listen_address.hpp"
#include "cluster/tree_plan.hpp"

#include <algorithm>
#include <fmt/core.h>
#include <initializer_list>
#include <map>
#include <set>

namespace dynamix::cluster {
namespace {

/// Collects what is wrong, each at the first of the fields that the command line or else the file gives.
class checker {
public:
  checker(const cluster_file& file, const std::set<std::string>& broken, std::vector<file_error>& errors)
      : file_(file), broken_(broken), errors_(errors) {}

  void require(bool holds, std::initializer_list<std::string> fields, const std::string& message) {
    if (holds || std::any_of(fields.begin(), fields.end(), [&](const auto& key) { return broken_.contains(key); }))
      return;
    auto given = std::ranges::find_if(fields, [&](const auto& key) { return file_.set_by.contains(key); });
    if (given == fields.end())
      given = std::ranges::find_if(fields, [&](const auto& key) { return file_.positions.contains(key); });
    errors_.push_back(error_at(file_, given == fields.end() ? *fields.begin() : *given, message));
  }

  const cluster_file& file() const { return file_; }
  const std::set<std::string>& broken() const { return broken_; }

private:
  const cluster_file& file_;
  const std::set<std::string>& broken_;
  std::vector<file_error>& errors_;
};

void check_batch(checker& check) {
  const auto& batch = check.file().batch;
  check.require(
      batch.lowest <= batch.highest, {"batch.lowest", "batch.highest"},
      fmt::format("batch.lowest is {}; it must be at most batch.highest, which is {}", batch.lowest, batch.highest));
  if (batch.lowest <= batch.highest)
    check.require(batch.lowest <= batch.initial && batch.initial <= batch.highest,
                  {"batch.initial", "batch.lowest", "batch.highest"},
                  fmt::format("batch.initial is {}; it must be in [{}, {}], from batch.lowest to batch.highest",
                              batch.initial, batch.lowest, batch.highest));
}

void check_training(checker& check) {
  const auto& training = check.file().training;
  const model_kind model = training.model;
  check.require(training.width == 1 ||
                    (model != model_kind::lenet && model != model_kind::ncf && model != model_kind::script),
                {"training.width", "training.model"},
                fmt::format("training.width is {}; it must be 1 for {}, only vgg, resnet, transformer and lstm have a "
                            "width",
                            number_text(training.width), to_string(training.model)));
  const bool images = training.dataset != dataset_kind::text && training.dataset != dataset_kind::interactions &&
                      training.dataset != dataset_kind::movielens;
  check.require(images || training.augmentation == augmentation_kind::none,
                {"training.augmentation", "training.dataset"},
                "training.augmentation changes images; it must be \"none\" for other data");
  check.require(
      training.dataset != dataset_kind::text || training.vocabulary != vocabulary_kind::byte_pairs ||
          training.vocabulary_size > 256,
      {"training.vocabulary_size", "training.vocabulary"},
      fmt::format("training.vocabulary_size is {}; byte pairs need at least 257, one more than there are bytes",
                  training.vocabulary_size));
  check.require(
      model != model_kind::lstm || training.label_smoothing == 0 || training.sampled_softmax == 0,
      {"training.label_smoothing", "training.sampled_softmax"},
      "training.label_smoothing spreads targets over the whole vocabulary; it must be 0 where lstm's loss draws "
      "from it, or training.sampled_softmax must be 0");
  const bool sums = training.trainer == trainer_kind::built_in;
  const auto message = [](std::string_view field, std::string_view value, std::string_view only) {
    return fmt::format(
        "training.{} is \"{}\"; it must be \"{}\" with training.trainer = \"client\", whose program sums "
        "its gradients itself",
        field, value, only);
  };
  check.require(sums || training.compression == compression_kind::none, {"training.compression", "training.trainer"},
                message("compression", to_string(training.compression), "none"));
  check.require(training.top_k == 0 || training.compression != compression_kind::none,
                {"training.top_k", "training.compression"},
                "training.top_k makes gradients sparse; it needs a training.compression that leaves out what is zero");
  check.require(sums || training.exchange == exchange_kind::ring, {"training.exchange", "training.trainer"},
                message("exchange", to_string(training.exchange), "ring"));
}

void check_arbitrator(checker& check) {
  const auto& actions = check.file().arbitrator.actions;
  const std::set<std::int32_t> distinct(actions.begin(), actions.end());
  const std::string key = "arbitrator.actions";
  check.require(actions.size() >= 2 && actions.size() <= 64, {key},
                fmt::format("arbitrator.actions has {} entries; it must have 2 to 64", actions.size()));
  check.require(distinct.size() == actions.size(), {key},
                "arbitrator.actions holds a number twice; they must be distinct");
  check.require(distinct.contains(0), {key},
                "arbitrator.actions lacks 0; one action must leave the batch size as it is");

  const auto& scales = check.file().arbitrator.scales;
  const std::set<std::int32_t> distinct_scales(scales.begin(), scales.end());
  check.require(scales.size() >= 2 && scales.size() <= 16 && distinct_scales.size() == scales.size() &&
                    distinct_scales.contains(100),
                {"arbitrator.scales"}, "arbitrator.scales must hold 2 to 16 distinct numbers, one of them 100");

  const auto& batch = check.file().batch;
  const auto static_batch = check.file().arbitrator.static_batch;
  check.require(
      static_batch == 0 || (batch.lowest <= static_batch && static_batch <= batch.highest), {"arbitrator.static_batch"},
      fmt::format("arbitrator.static_batch is {}; it must be 0 or from batch.lowest to batch.highest", static_batch));

  check.require(
      check.file().arbitrator.policy != policy_kind::stigmergic || !check.file().arbitrator.shadow,
      {"arbitrator.shadow", "arbitrator.policy"},
      "arbitrator.policy = \"stigmergic\" and arbitrator.shadow do not go together: there is no decision that "
      "could be shown instead of being carried out");

  check.require(check.file().arbitrator.policy != policy_kind::stigmergic ||
                    check.file().arbitrator.balance != balance_kind::off,
                {"arbitrator.balance", "arbitrator.policy"},
                "arbitrator.policy = \"stigmergic\" and arbitrator.balance = \"off\" do not go together: under it "
                "nobody but the workers changes batch sizes");

  const auto& ppo = check.file().ppo;
  const auto rollout = std::uint64_t{ppo.horizon} * check.file().workers().size();
  if (rollout > 0)
    check.require(ppo.minibatches <= rollout, {"ppo.minibatches", "ppo.horizon"},
                  fmt::format("ppo.minibatches is {}; it must be at most {}, ppo.horizon times the number of workers",
                              ppo.minibatches, rollout));
}

void check_tree(checker& check) {
  const auto& arbitrator = check.file().arbitrator;
  const std::set<std::string> distinct(arbitrator.shards.begin(), arbitrator.shards.end());
  const std::string key = "arbitrator.shards";
  check.require(arbitrator.shards.empty() || arbitrator.topology == arbitration_topology::tree,
                {key, "arbitrator.topology"}, "arbitrator.shards needs arbitrator.topology = \"tree\"");
  check.require(distinct.size() == arbitrator.shards.size(), {key},
                "arbitrator.shards names a host twice; they must be distinct");
  for (const auto& name : distinct)
    check.require(check.file().find(name) != nullptr, {key},
                  "arbitrator.shards names \"" + name + "\", which is not a host of this file");
  if (arbitrator.topology == arbitration_topology::central)
    return;
  for (const auto* host : check.file().arbitrators())
    check.require(!distinct.contains(host->name), {key},
                  "arbitrator.shards names \"" + host->name + "\", which holds the root");
}

/// Only for a file whose hosts are in order.
void check_tree_plan(checker& check) {
  const auto error = plan_tree(check.file()).error;
  check.require(error.empty(), {"arbitrator.shards", "arbitrator.fanout"}, error);
}

void check_dashboard(checker& check) {
  const auto& dashboard = check.file().dashboard;
  const auto listen = parse_listen_address(dashboard.listen);
  check.require(!listen || is_loopback(listen->address) || !dashboard.token_file.empty(),
                {"dashboard.listen", "dashboard.token_file"},
                fmt::format("dashboard.listen is {}, which is not loopback; that needs dashboard.token_file",
                            settings::quoted(dashboard.listen)));
  const bool named = !dashboard.certificate_file.empty() && !dashboard.key_file.empty();
  check.require((dashboard.tls == page_tls::file) == named &&
                    dashboard.certificate_file.empty() == dashboard.key_file.empty(),
                {"dashboard.tls", "dashboard.certificate_file", "dashboard.key_file"},
                fmt::format("dashboard.tls is \"{}\"; \"file\" goes with both dashboard.certificate_file and "
                            "dashboard.key_file, the others with neither",
                            to_string(dashboard.tls)));
}

/// Of a host with several workers, or with GPUs for one.
void check_slots(checker& check, std::size_t index) {
  const auto& file = check.file();
  const auto& host = file.hosts[index];
  const auto count = host.worker_count();
  if (count < 2 && host.gpus.empty())
    return;
  const std::string key = fmt::format("host[{}]", index);
  const std::string who = count < 2 ? fmt::format("host \"{}\" has a GPU for its worker", host.name)
                                    : fmt::format("host \"{}\" has {} workers", host.name, count);
  const std::set<std::int32_t> distinct(host.gpus.begin(), host.gpus.end());
  check.require(distinct.size() == host.gpus.size(), {key + ".gpus"},
                "host.gpus holds a number twice; each worker has a GPU of its own");
  check.require(host.gpus.empty() || host.gpus.size() == count, {key + ".workers", key + ".gpus"},
                fmt::format("host.gpus names {} and host.workers is {}; there must be one for each worker, or none",
                            host.gpus.size(), count));
  check.require(host.roles.empty() || host.has(role::worker), {key + ".workers", key + ".gpus", key + ".roles"},
                who + ", but not the role \"worker\"");
  check.require(count < 2 || file.training.trainer == trainer_kind::client, {key + ".workers", key + ".gpus"},
                who +
                    "; that needs training.trainer = \"client\". With the built-in trainer write a [[host]] for each, "
                    "or host.count");
  check.require(count > 1 || file.training.trainer == trainer_kind::client || file.training.device != "cpu",
                {key + ".gpus", "training.device"}, who + ", but training.device is \"cpu\"");
}

void check_host(checker& check, std::size_t index) {
  const auto& host = check.file().hosts[index];
  const std::string key = fmt::format("host[{}]", index);
  const std::set<role> distinct(host.roles.begin(), host.roles.end());
  check.require(!host.roles.empty(), {key + ".roles"},
                "host.roles is empty; it must hold \"worker\", \"arbitrator\" or \"server\"");
  check.require(distinct.size() == host.roles.size(), {key + ".roles"},
                "host.roles holds a role twice; they must be distinct");

  const auto& batch = check.file().batch;
  check.require(
      host.batch_highest == 0 || (batch.initial <= host.batch_highest && host.batch_highest <= batch.highest),
      {key + ".batch_highest"},
      fmt::format("host.batch_highest is {}; it must be 0 or from batch.initial to batch.highest", host.batch_highest));
  check.require(host.leave_at_seconds == 0 || host.leave_at_seconds > host.join_at_seconds,
                {key + ".leave_at_seconds", key + ".join_at_seconds"},
                "host.leave_at_seconds is " + number_text(host.leave_at_seconds) +
                    "; it must be 0 or above host.join_at_seconds");

  check_slots(check, index);

  const host_entry entry = to_entry(host);
  if (!host.roles.empty())
    check.require(host.has(role::worker) || host.emulate.empty(),
                  {key + ".compute_slowdown", key + ".emulate", key + ".roles"},
                  "host \"" + host.name + "\" is slowed down; only a host with the role \"worker\" computes");
  for (std::size_t i = 1; i < entry.host.emulate.size(); ++i) {
    const std::string change = fmt::format("{}.emulate[{}].at_seconds", key, i);
    check.require(entry.host.emulate[i].at_seconds > entry.host.emulate[i - 1].at_seconds,
                  {change, fmt::format("{}.emulate[{}].at_seconds", key, i - 1)},
                  "host.emulate.at_seconds is " + number_text(entry.host.emulate[i].at_seconds) +
                      "; it must be above that of the entry before, which is " +
                      number_text(entry.host.emulate[i - 1].at_seconds));
  }
}

void check_unique(checker& check) {
  std::map<std::string, std::size_t> by_name;
  std::map<std::string, std::size_t> by_place;
  const auto& hosts = check.file().hosts;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const std::string key = fmt::format("host[{}]", i);
    const std::string place = fmt::format("{}:{}", hosts[i].address, hosts[i].port);
    const auto first_line = [&](std::size_t other, const char* name) {
      return std::to_string(check.file().where(fmt::format("host[{}].{}", other, name)).line);
    };
    if (const auto [first, fresh] = by_name.try_emplace(hosts[i].name, i); !fresh)
      check.require(hosts[i].name.empty(), {key + ".name"},
                    "host.name is \"" + hosts[i].name + "\", which the host in line " +
                        first_line(first->second, "name") + " has already; names must be unique");
    if (const auto [first, fresh] = by_place.try_emplace(place, i); !fresh)
      check.require(
          hosts[i].port == 0, {key + ".port", key + ".address"},
          fmt::format(
              "host.port is {} on {}, which host \"{}\" in line {} has already; address and port must be unique",
              hosts[i].port, hosts[i].address, hosts[first->second].name, first_line(first->second, "port")));
  }
}

void check_replicas(checker& check) {
  const std::string key = "arbitrator.replicas";
  const auto& replicas = check.file().arbitrator.replicas;
  const std::set<std::string> named(replicas.begin(), replicas.end());
  const bool counted = named.size() == replicas.size() && (named.size() == 3 || named.size() == 5);
  check.require(counted, {key}, "arbitrator.replicas must name 3 or 5 distinct hosts, or none");
  if (!counted)
    return;
  std::set<std::string> arbitrating;
  for (const auto* host : check.file().arbitrators())
    arbitrating.insert(host->name);
  check.require(named == arbitrating, {key},
                "arbitrator.replicas must name exactly the hosts that have the role \"arbitrator\"");
}

void check_membership(checker& check, std::size_t workers) {
  const auto& file = check.file();
  const bool open = file.membership == membership_kind::open;
  const auto most = open ? std::size_t{file.workers_max} : workers;
  check.require(open || file.workers_max == 0, {"cluster.workers_max", "cluster.membership"},
                "cluster.workers_max limits an open cluster; it needs cluster.membership = \"open\"");
  check.require(!open || file.workers_max >= std::max<std::size_t>(workers, 1),
                {"cluster.workers_max", "cluster.membership"},
                fmt::format("cluster.workers_max is {}; an open cluster needs at least {}, with the workers of this "
                            "file, and as many more as may join",
                            file.workers_max, std::max<std::size_t>(workers, 1)));
  check.require(file.workers_min <= most, {"cluster.workers_min", "cluster.workers_max"},
                fmt::format("cluster.workers_min is {}; there can be at most {} workers", file.workers_min, most));
}

void check_servers(checker& check, std::size_t workers) {
  const auto& file = check.file();
  const auto members = file.members();
  if (members.size() == workers)
    return;
  const auto& first = *members[workers];
  const std::string key = fmt::format("host[{}].roles", &first - file.hosts.data());
  const auto require = [&](bool holds, const char* field, const std::string& what) {
    check.require(holds, {key, field}, fmt::format("host \"{}\" only sums gradients, {}", first.name, what));
  };
  require(file.training.exchange != exchange_kind::ring, "training.exchange",
          "which needs training.exchange = \"parameter-server\" or \"auto\"");
  require(file.training.trainer == trainer_kind::built_in, "training.trainer",
          "which training.trainer = \"client\" sums by itself");
  const auto all = members.size() - workers + std::max<std::size_t>(workers, file.workers_max);
  require(all <= workers_most, "host[0].roles",
          fmt::format("but there are {} workers and servers; at most {} may be", all, workers_most));
}

void check_roles(checker& check) {
  const auto& hosts = check.file().hosts;
  check.require(!hosts.empty(), {"host"},
                "there is no host; write one [[host]] for each, 1 to 8192, of which 4096 may be workers");
  const bool unclear = std::any_of(hosts.begin(), hosts.end(), [](const auto& each) { return each.roles.empty(); });
  const bool unread =
      std::ranges::any_of(check.broken(), [](const auto& key) { return key.ends_with("].roles"); }); // of any host
  if (hosts.empty() || unclear || unread)
    return;
  const auto workers = check.file().workers().size();
  check.require(workers > 0 || check.file().membership == membership_kind::open, {"host[0].roles"},
                "no host has the role \"worker\"; at least one must");
  check_membership(check, workers);
  check.require(workers <= workers_most, {"host[0].roles"},
                fmt::format("there are {} workers; at most {} may be", workers, workers_most));
  std::size_t arbitrators = 0;
  const bool replicated = !check.file().arbitrator.replicas.empty();
  for (std::size_t i = 0; i < hosts.size(); ++i)
    if (hosts[i].has(role::arbitrator) && ++arbitrators > 1)
      check.require(replicated, {fmt::format("host[{}].roles", i)},
                    "host \"" + hosts[i].name +
                        "\" is a second arbitrator; exactly one host must have that role, or 3 or 5 that "
                        "arbitrator.replicas names");
  check.require(arbitrators > 0, {"host[0].roles"},
                "no host has the role \"arbitrator\"; exactly one must, unless arbitrator.policy is \"stigmergic\"");
  if (replicated)
    check_replicas(check);
  check_servers(check, workers);
}

} // namespace

void validate(const cluster_file& file, const std::set<std::string>& broken, std::vector<file_error>& errors) {
  checker check(file, broken, errors);
  check_batch(check);
  check_training(check);
  check_arbitrator(check);
  for (std::size_t i = 0; i < file.hosts.size(); ++i)
    check_host(check, i);
  check_unique(check);
  check_roles(check);
  check_tree(check);
  check_dashboard(check);
  if (errors.empty())
    check_tree_plan(check);
}

} // namespace dynamix::cluster
