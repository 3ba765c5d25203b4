/// What a cluster file says, for people and programs: the plan, the resolved file, the documentation's tables.

#include "cluster/fields.hpp"
#include "cluster/places.hpp"
#include "cluster/server_plan.hpp"
#include "cluster/text_table.hpp"
#include "cluster/tree_plan.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fmt/core.h>
#include <initializer_list>
#include <map>
#include <utility>

namespace dynamix::cluster {
namespace {

using json = nlohmann::ordered_json;

std::vector<std::pair<std::string, std::uint32_t>> timeout_values(std::uint32_t detect_ms) {
  const timeouts derived = derive_timeouts(detect_ms);
  return {{"heartbeat_interval_ms", derived.heartbeat_interval_ms},
          {"connection_timeout_ms", derived.connection_timeout_ms},
          {"probe_timeout_ms", derived.probe_timeout_ms},
          {"request_timeout_ms", derived.request_timeout_ms},
          {"gather_timeout_ms", derived.gather_timeout_ms},
          {"beat_interval_ms", derived.beat_interval_ms},
          {"silence_ms", derived.silence_ms},
          {"rejoin_timeout_ms", derived.rejoin_timeout_ms},
          {"stall_timeout_ms", derived.stall_timeout_ms},
          {"collective_timeout_ms", derived.collective_timeout_ms},
          {"join_timeout_ms", derived.join_timeout_ms},
          {"shutdown_timeout_ms", derived.shutdown_timeout_ms}};
}

std::string hex(std::uint64_t number) {
  return fmt::format("{:016x}", number);
}

std::string slowdown_text(const host& of) {
  if (!of.has(role::worker))
    return "-";
  const host_entry entry = to_entry(of);
  std::string text = number_text(entry.compute_slowdown);
  for (const auto& change : entry.host.emulate)
    text += fmt::format(", {} from {} s", number_text(change.compute_slowdown), number_text(change.at_seconds));
  return text;
}

std::map<const host*, std::size_t> ranks_of(const cluster_file& file) {
  std::map<const host*, std::size_t> ranks;
  for (const auto* member : file.members())
    ranks.emplace(member, ranks.size());
  return ranks;
}

/// The first `most` hosts.
std::string hosts_table(const cluster_file& file, std::size_t most) {
  std::vector<std::vector<std::string>> rows = {{"host", "address", "roles", "rank", "compute slow-down"}};
  const auto ranks = ranks_of(file);
  for (const auto& each : file.hosts) {
    if (rows.size() > most)
      return text_table(rows, 2) + fmt::format("  ... and {} more\n", file.hosts.size() - most);
    std::string rank = "-";
    if (const auto members = each.members(); !members.empty()) {
      rank = std::to_string(ranks.at(members.front()));
      if (members.size() > 1)
        rank += fmt::format(" to {}", ranks.at(members.back()));
    }
    rows.push_back(
        {each.name, fmt::format("{}:{}", each.address, each.port), roles_text(each), rank, slowdown_text(each)});
  }
  return text_table(rows, 2);
}

/// Of hosts with several workers, and of those whose worker has a GPU; empty: there are none.
std::string workers_table(const cluster_file& file) {
  std::vector<std::vector<std::string>> rows = {{"worker", "rank", "GPU", "joins at"}};
  const auto ranks = ranks_of(file);
  for (const auto& each : file.hosts)
    for (std::size_t slot = 0; const auto* worker : each.members()) {
      if (!each.slots.empty() || !each.gpus.empty())
        rows.push_back({worker->name, std::to_string(ranks.at(worker)),
                        worker->gpus.empty() ? "-" : std::to_string(worker->gpus.front()),
                        fmt::format("agents/{}.sock", slot)});
      ++slot;
    }
  return rows.size() == 1 ? "" : "\nworkers of one host\n" + text_table(rows, 2);
}

/// TOML values of the file are JSON values too.
json to_json(const std::vector<settings::bound_field>& fields) {
  json object;
  for (const auto& each : fields)
    object[std::string(each.name)] = json::parse(value_text(each));
  return object;
}

/// A host's fields for the digest: those that have come since a release only where they are used, and none that changes
/// nothing of what a run computes.
std::vector<settings::bound_field> digested_fields(const host_entry& entry) {
  static const host_entry standard;
  static const auto standards = settings::show(host_fields(), standard);
  auto fields = settings::show(host_fields(), entry);
  for (auto i = fields.size(); i-- > 0;)
    if (const auto name = fields[i].name;
        name == "preemption" || ((name == "workers" || name == "gpus" || name == "bind_cores") &&
                                 value_text(fields[i]) == value_text(standards[i])))
      fields.erase(fields.begin() + static_cast<std::ptrdiff_t>(i));
  return fields;
}

std::string to_toml_without(const cluster_file& file, std::initializer_list<std::string_view> left_out) {
  std::string text;
  const bool digested = left_out.size() > 0;
  for (const auto section : settings::sections_of(file_fields()))
    if (std::ranges::find(left_out, section) == left_out.end())
      text += fmt::format("{}[{}]\n{}", text.empty() ? "" : "\n", section,
                          settings::to_toml(settings::show(file_fields(), file, section)));
  for (const auto& each : file.hosts) {
    if (is_place(each))
      continue;
    const host_entry entry = to_entry(each);
    text +=
        "\n[[host]]\n" + settings::to_toml(digested ? digested_fields(entry) : settings::show(host_fields(), entry));
    for (const auto& change : entry.host.emulate)
      text += "\n[[host.emulate]]\n" + settings::to_toml(settings::show(emulation_fields(), change));
  }
  return text;
}

/// What travels between this file's hosts, and how.
std::vector<std::pair<std::string, std::string>> link_protections(const cluster_file& file) {
  const bool keys = !file.security.keys.empty();
  const std::string proven = "TLS 1.3, both sides with a certificate";
  const std::string clear = file.insecure ? "in the clear, except in a run by launch, which makes keys"
                                          : "in the clear, except in a run by local or launch, which make keys";
  std::vector<std::pair<std::string, std::string>> found;
  found.emplace_back("control", keys ? proven : clear);
  if (!file.arbitrator.replicas.empty())
    found.emplace_back("raft", proven);
  found.emplace_back("gradients", file.training.trainer == trainer_kind::client
                                      ? "by the training program's own process group"
                                  : !keys ? clear
                                  : file.security.data == data_protection::clear
                                      ? "in the clear, between hosts that have proved who they are by TLS 1.3"
                                      : proven);
  if (!file.dashboard.listen.empty())
    found.emplace_back("page", fmt::format("{}{}",
                                           file.dashboard.tls == page_tls::off    ? "plain HTTP"
                                           : file.dashboard.tls == page_tls::host ? "TLS 1.3 by the host's certificate"
                                                                                  : "TLS 1.3 by a given certificate",
                                           file.dashboard.token_file.empty() ? "" : ", a bearer token"));
  return found;
}

double link_mbit(const cluster_file& file, const host& of) {
  return of.bandwidth_mbit > 0 ? of.bandwidth_mbit : file.simulation.bandwidth_mbit;
}

/// An open cluster may name no worker.
bool plans_exchange(const cluster_file& file) {
  return file.training.exchange != exchange_kind::ring && !file.workers().empty();
}

/// By the links of the file; a run measures them.
server_plan plan_exchange(const cluster_file& file) {
  std::vector<exchange_host> hosts;
  for (const auto* member : file.members())
    hosts.push_back({.link_rate = link_mbit(file, *member) * 1e6 / 8, .works = !member->only_serves()});
  return plan_servers(hosts);
}

std::string_view batch_changes(const cluster_file& file) {
  if (file.arbitrator.policy == policy_kind::stigmergic)
    return "at every step, by the workers' paces";
  const bool decided = !file.arbitrator.shadow && adapts(file.arbitrator.policy);
  const bool automatic = file.arbitrator.balance == balance_kind::automatic;
  if (file.balances() && automatic)
    return "by decisions, once a window, and shares at every step by the paces of workers that share no cores";
  if (file.balances())
    return decided ? "by decisions, once a window, and shares at every step by the workers' paces"
                   : "shares at every step, by the workers' paces";
  return decided ? "by decisions, once a window" : "never";
}

std::string exchange_text(const cluster_file& file) {
  if (!plans_exchange(file))
    return "";
  const auto plan = plan_exchange(file);
  std::vector<std::vector<std::string>> rows = {{"host", "link Mbit/s", "share of the gradients"}};
  const auto members = file.members();
  for (std::size_t rank = 0; rank < members.size(); ++rank)
    rows.push_back(
        {members[rank]->name, number_text(link_mbit(file, *members[rank])), fmt::format("{:.3f}", plan.shares[rank])});
  return fmt::format("\nexchange by the links of this file (a run measures them)\n{}"
                     "  a MB of gradients: {:.3f} ms through servers, {:.3f} ms in a ring; bound by {}\n",
                     text_table(rows, 2), plan.seconds_per_byte * 1e9, plan.ring_seconds_per_byte * 1e9,
                     plan.bound == exchange_bound::worker_link
                         ? fmt::format("the link of {}", members[plan.slowest]->name)
                         : std::string(to_string(plan.bound)));
}

json exchange_json(const cluster_file& file) {
  const auto plan = plan_exchange(file);
  json object;
  const auto members = file.members();
  for (std::size_t rank = 0; rank < members.size(); ++rank)
    object["shares"][members[rank]->name] = plan.shares[rank];
  object["server_seconds_per_mb"] = plan.seconds_per_byte * 1e6;
  object["ring_seconds_per_mb"] = plan.ring_seconds_per_byte * 1e6;
  object["bound"] = to_string(plan.bound);
  return object;
}

} // namespace

std::string roles_text(const host& of) {
  std::string text;
  for (const auto each : of.roles)
    text += (text.empty() ? "" : ", ") + std::string(to_string(each));
  return text;
}

std::string to_toml(const cluster_file& file) {
  return to_toml_without(file, {});
}

std::string to_digested_toml(const cluster_file& file) {
  auto resolved = file; // what runs counts, not how the file says it
  if (!file.balances())
    resolved.arbitrator.balance = balance_kind::off;
  else if (file.arbitrator.policy == policy_kind::stigmergic)
    resolved.arbitrator.balance = balance_kind::on;
  if (const auto script = file.training.model.script_path(); !script.empty()) // of which workers compare the contents
    resolved.training.model.name = "script:" + std::filesystem::path(script).filename().string();
  auto text = to_toml_without(resolved, {"security", "run"});
  // Fields that have come since a release count where they are used, so that its run directories replay.
  for (const std::string_view line : {"trainer = \"built-in\"\n",
                                      "interactions_scale = 1\n",
                                      "compression = \"none\"\n",
                                      "top_k = 0\n",
                                      "layers = 4\n",
                                      "heads = 4\n",
                                      "context = 128\n",
                                      "vocabulary = \"bytes\"\n",
                                      "vocabulary_size = 8192\n",
                                      "sampled_softmax = 512\n",
                                      "schedule = \"constant\"\n",
                                      "warmup_samples = 0\n",
                                      "label_smoothing = 0\n",
                                      "ema_samples = 0\n",
                                      "memory_mb = 0\n",
                                      "loader_threads = 0\n",
                                      "patience = 0\n",
                                      "evaluate_samples = 0\n",
                                      "nan = \"stop\"\n",
                                      "augmentation = \"none\"\n",
                                      "micro_batch = 0\n",
                                      "precision = \"float32\"\n",
                                      "balance = \"off\"\n",
                                      "tls = \"off\"\n",
                                      "certificate_file = \"\"\n",
                                      "key_file = \"\"\n",
                                      "membership = \"listed\"\n",
                                      "workers_min = 0\n",
                                      "workers_max = 0\n",
                                      "host_places_max = 16\n"})
    if (const auto at = text.find(line); at != std::string::npos)
      text.erase(at, line.size());
  return text;
}

std::string describe_fields_markdown() {
  std::string text;
  for (const auto section : settings::sections_of(file_fields()))
    text += settings::to_markdown(fmt::format("[{}]", section), settings::show(file_fields(), {}, section));
  text += settings::to_markdown("[[host]]", settings::show(host_fields(), {}));
  text += settings::to_markdown("[[host.emulate]]", settings::show(emulation_fields(), {}));
  text.pop_back();
  return text;
}

namespace {

/// Every field, the sections one behind the other.
std::string all_fields(const cluster_file& file) {
  const cluster_file defaults;
  std::string text;
  for (const auto section : settings::sections_of(file_fields())) {
    const auto values = settings::show(file_fields(), file, section);
    const auto standards = settings::show(file_fields(), defaults, section);
    std::vector<std::vector<std::string>> rows;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::string value = value_text(values[i]);
      const std::string standard = value_text(standards[i]);
      const bool silent = values[i].presence == settings::presence::required || value == standard;
      rows.push_back({std::string(values[i].name), value, silent ? "" : "(default " + standard + ")"});
    }
    text += fmt::format("\n{}\n{}", section, text_table(rows, 2, heading::absent));
  }
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, value] : timeout_values(file.detect_ms))
    rows.push_back({name, std::to_string(value)});
  return text + "\ntime-outs from detect_ms\n" + text_table(rows, 2, heading::absent);
}

/// The fields that the file sets to something else than their default; of what only the simulator reads, nothing.
std::string changed_fields(const cluster_file& file) {
  const cluster_file defaults;
  const auto values = settings::show(file_fields(), file);
  const auto standards = settings::show(file_fields(), defaults);
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (const auto value = value_text(values[i]), standard = value_text(standards[i]);
        values[i].presence != settings::presence::required && values[i].section != "simulation" && value != standard)
      rows.push_back({values[i].label(), value, "(default " + standard + ")"});
  return rows.empty() ? "\nall fields have their defaults\n"
                      : "\ndiffers from the defaults\n" + text_table(rows, 2, heading::absent);
}

constexpr std::size_t hosts_shown = 12; ///< in a summary

} // namespace

std::string describe_plan(const cluster_file& file, plan_detail detail) {
  const bool all = detail == plan_detail::all;
  std::string text = fmt::format("cluster {}  ({}, digest {})\n\nhosts\n", file.name, file.path, hex(file.digest()));
  text += hosts_table(file, all ? file.hosts.size() : hosts_shown) + workers_table(file);
  text += all ? all_fields(file) : changed_fields(file);
  std::vector<std::vector<std::string>> rows;
  for (const auto& [link, protection] : link_protections(file))
    rows.push_back({link, protection});
  text += "\nlinks between hosts\n" + text_table(rows, 2, heading::absent);
  text += exchange_text(file);
  text += fmt::format("\nbatch sizes change {}\n", batch_changes(file));
  return text + "\narbitrators\n" + describe_tree(plan_tree(file));
}

std::string describe_plan_json(const cluster_file& file) {
  json plan;
  plan["path"] = file.path;
  plan["digest"] = hex(file.digest());
  for (const auto section : settings::sections_of(file_fields()))
    plan[std::string(section)] = to_json(settings::show(file_fields(), file, section));
  const auto ranks = ranks_of(file);
  for (const auto& each : file.hosts) {
    const host_entry entry = to_entry(each);
    json host = to_json(settings::show(host_fields(), entry));
    const auto members = each.members();
    host["rank"] = members.empty() ? json(nullptr) : json(ranks.at(members.front()));
    for (const auto& slot : each.slots)
      host["slots"].push_back({{"name", slot.name},
                               {"rank", ranks.at(&slot)},
                               {"gpu", slot.gpus.empty() ? json(nullptr) : json(slot.gpus.front())}});
    host["emulate"] = json::array();
    for (const auto& change : entry.host.emulate)
      host["emulate"].push_back(to_json(settings::show(emulation_fields(), change)));
    plan["hosts"].push_back(host);
  }
  for (const auto& [name, value] : timeout_values(file.detect_ms))
    plan["timeouts"][name] = value;
  for (const auto& [link, protection] : link_protections(file))
    plan["links"][link] = protection;
  if (plans_exchange(file))
    plan["exchange"] = exchange_json(file);
  plan["tree"] = json::parse(describe_tree_json(plan_tree(file)));
  return plan.dump(2);
}

} // namespace dynamix::cluster
