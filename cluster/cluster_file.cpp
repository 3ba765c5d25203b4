#include "cluster/cluster_file.hpp"

#include "cluster/fields.hpp"
#include "storage/fnv1a.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <stdexcept>

namespace dynamix::cluster {
namespace {

constexpr std::string_view script_prefix = "script:";
constexpr char slot_mark = '/'; // no host's name has it

} // namespace

std::string model_choice::script_path() const {
  return name.starts_with(script_prefix) ? name.substr(script_prefix.size()) : "";
}

bool host::has(role wanted) const {
  return std::find(roles.begin(), roles.end(), wanted) != roles.end();
}

std::vector<const host*> host::members() const {
  std::vector<const host*> found;
  for (const auto& each : slots)
    found.push_back(&each);
  if (slots.empty() && takes_part())
    found.push_back(this);
  return found;
}

std::string host_of(const std::string& worker) {
  return worker.substr(0, worker.find(slot_mark));
}

bool is_slot(const std::string& worker) {
  return worker.find(slot_mark) != std::string::npos;
}

std::string file_name_of(const std::string& worker) {
  auto name = worker;
  std::ranges::replace(name, slot_mark, '+'); // no host's name has that, either
  return name;
}

std::string visible_gpus(const std::vector<const host*>& workers) {
  std::string text;
  for (const auto* worker : workers) {
    if (worker->gpus.size() != 1)
      return "";
    text += (text.empty() ? "" : ",") + std::to_string(worker->gpus.front());
  }
  return text;
}

const host* cluster_file::find(const std::string& wanted) const {
  const auto machine = std::ranges::find(hosts, host_of(wanted), &host::name);
  if (machine == hosts.end() || !is_slot(wanted))
    return machine == hosts.end() ? nullptr : &*machine;
  const auto slot = std::ranges::find(machine->slots, wanted, &host::name);
  return slot == machine->slots.end() ? nullptr : &*slot;
}

std::vector<const host*> cluster_file::workers() const {
  std::vector<const cluster::host*> found;
  for (const auto& each : hosts)
    if (each.has(role::worker))
      std::ranges::copy(each.members(), std::back_inserter(found));
  return found;
}

std::vector<const host*> cluster_file::members() const {
  auto found = workers();
  for (const auto& each : hosts)
    if (each.only_serves())
      found.push_back(&each);
  return found;
}

std::vector<const host*> cluster_file::arbitrators() const {
  std::vector<const cluster::host*> found;
  for (const auto& each : hosts)
    if (each.has(role::arbitrator))
      found.push_back(&each);
  return found;
}

const host& cluster_file::arbitrator_host() const {
  for (const auto& each : hosts)
    if (each.has(role::arbitrator))
      return each;
  throw std::logic_error("a cluster file without an arbitrator was used"); // validation refuses such a file
}

bool cluster_file::begins_small() const {
  return !arbitrator.shadow && (arbitrator.policy == policy_kind::goodput || arbitrator.policy == policy_kind::ppo);
}

std::uint32_t cluster_file::first_batch() const {
  return begins_small() && goes_below_initial(training.rule) ? std::max(batch.lowest, batch.initial / start_divisor)
                                                             : batch.initial;
}

std::vector<std::uint32_t> cluster_file::highest_by_rank() const {
  std::vector<std::uint32_t> limits;
  for (const auto* worker : workers())
    limits.push_back(worker->batch_highest == 0 ? batch.highest : worker->batch_highest);
  return limits;
}

bool cluster_file::balances() const {
  const auto policy = arbitrator.policy;
  if (arbitrator.shadow)
    return false;
  if (arbitrator.balance == balance_kind::automatic)
    return policy == policy_kind::ppo || policy == policy_kind::goodput || policy == policy_kind::stigmergic;
  return arbitrator.balance == balance_kind::on;
}

reward_kind cluster_file::reward_in_force() const {
  if (reward.kind != reward_kind::automatic)
    return reward.kind;
  return arbitrator.policy == policy_kind::ppo ? reward_kind::progress : reward_kind::paper;
}

position cluster_file::where(const std::string& field) const {
  return settings::find_position(positions, field);
}

std::uint64_t cluster_file::digest() const {
  return storage::fnv1a().add(to_digested_toml(*this)).value();
}

std::string resolve_path(const cluster_file& file, const std::string& path) {
  if (path.empty() || std::filesystem::path(path).is_absolute())
    return path;
  return (std::filesystem::path(file.path).parent_path() / path).lexically_normal().string();
}

void make_paths_absolute(cluster_file& file) {
  const auto settle = [&file](std::string& path) {
    if (!path.empty())
      path = std::filesystem::absolute(resolve_path(file, path)).string();
  };
  settle(file.secret_file); // as ever, for the digest
  if (auto script = file.training.model.script_path(); !script.empty()) {
    settle(script);
    file.training.model.name = std::string(script_prefix) + script;
  }
  settle(file.arbitrator.policy_file);
  settle(file.dashboard.token_file);
  settle(file.dashboard.certificate_file);
  settle(file.dashboard.key_file);
  settle(file.security.keys);
  settle(file.simulation.profile);
  settle(file.simulation.workload);
  for (auto& each : file.hosts) {
    settle(each.profile);
    if (!each.preemption.starts_with("command:"))
      settle(each.preemption);
  }
}

timeouts derive_timeouts(std::uint32_t detect_ms) {
  timeouts derived;
  derived.heartbeat_interval_ms = std::max(1000U, detect_ms / 4);
  derived.connection_timeout_ms = 4 * derived.heartbeat_interval_ms;
  derived.probe_timeout_ms = std::clamp(detect_ms, 250U, 5000U);
  derived.request_timeout_ms = std::max(1000U, 2 * detect_ms);
  derived.gather_timeout_ms = std::max(50U, detect_ms / 2);
  derived.beat_interval_ms = std::max(25U, detect_ms / 4);
  derived.silence_ms = 3 * detect_ms / 2;
  derived.rejoin_timeout_ms = std::max(5000U, 5 * detect_ms);
  derived.stall_timeout_ms = std::max(60000U, 60 * detect_ms);
  derived.collective_timeout_ms = std::max(60000U, 60 * detect_ms);
  derived.join_timeout_ms = std::max(600000U, 600 * detect_ms);
  derived.shutdown_timeout_ms = std::max(5000U, 5 * detect_ms);
  return derived;
}

std::string refuse_listen(const cluster_file& file, const host& listener, bool insecure_flag) {
  if (!file.security.keys.empty() || file.insecure || insecure_flag || is_loopback(listener.address))
    return "";
  return "host \"" + listener.name + "\" would listen on " + listener.address +
         ", which is not loopback, and nothing authenticates its peers; make keys (dynamix-node keys init), use an "
         "address in 127.0.0.0/8, ::1 or localhost, or allow it with cluster.insecure = true or --insecure";
}

file_error error_at(const cluster_file& file, const std::string& field, const std::string& message) {
  if (const auto option = file.set_by.find(field); option != file.set_by.end())
    return {.file = option->second, .message = message};
  const position place = file.where(field);
  return {file.path, place.line, place.column, message};
}

} // namespace dynamix::cluster
