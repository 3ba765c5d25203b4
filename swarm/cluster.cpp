#include "swarm/cluster.hpp"

#include "cluster/tree_plan.hpp"
#include "simulator/device_profile.hpp"
#include "simulator/workload.hpp"
#include "storage/atomic_file.hpp"

#include <algorithm>
#include <filesystem>
#include <fmt/core.h>
#include <map>

namespace dynamix::swarm {
namespace {

constexpr std::uint32_t workers_a_process = 512;
constexpr std::uint32_t processes_most = 8;
constexpr const char* fast = "fast.toml";
constexpr const char* slow = "slow.toml";
constexpr const char* workload = "workload.toml";

simulator::device_profile made_up(const std::string& name, double milliseconds_a_sample) {
  simulator::device_profile profile{.name = name, .source = "made up for dynamix-node swarm"};
  for (const double batch : {8.0, 64.0, 512.0, 1024.0})
    profile.points.push_back({.batch = batch, .seconds = (10 + milliseconds_a_sample * batch) / 1000});
  profile.curve = simulator::monotone_curve(profile.points);
  return profile;
}

} // namespace

cluster::cluster_file default_cluster() {
  cluster::cluster_file file;
  file.name = "swarm";
  file.hosts.push_back({.name = "fast", .profile = fast});
  file.hosts.push_back({.name = "slow", .profile = slow});
  return file;
}

cluster::cluster_file describe(const cluster::cluster_file& from, std::uint32_t workers, std::uint16_t port,
                               const std::string& models) {
  auto file = from;
  cluster::make_paths_absolute(file);
  const auto absolute = file;
  file.path.clear();
  file.positions.clear();
  file.arbitrator.replicas.clear();
  file.simulation.cores = 0;
  file.dashboard.listen.clear();
  const auto model = [&](const std::string& name) { return models + "/" + name; };
  if (file.simulation.workload.empty())
    file.simulation.workload = model(workload);
  if (file.simulation.profile.empty())
    file.simulation.profile = model(fast);
  file.hosts = {{.name = "arbitrator", .port = port, .roles = {cluster::role::arbitrator}}};
  const auto kinds = absolute.workers();
  const bool made_up = from.path.empty();
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    const auto& kind = *kinds[rank % kinds.size()];
    auto& host = file.hosts.emplace_back();
    host.name = fmt::format("w{}", rank + 1);
    host.port = static_cast<std::uint16_t>(rank + 1); // nobody listens there
    host.emulate = kind.emulate;
    host.batch_highest = kind.batch_highest;
    host.bandwidth_mbit = kind.bandwidth_mbit;
    host.profile =
        made_up && !kind.profile.empty() ? model(from.workers()[rank % kinds.size()]->profile) : kind.profile;
  }
  return file;
}

void add_replicas(cluster::cluster_file& file, std::uint32_t replicas,
                  const std::function<std::uint16_t()>& free_port) {
  const auto first = file.arbitrator_host();
  for (std::uint32_t number = 1; number <= replicas; ++number) {
    auto host = first;
    if (number > 1) {
      host.name = fmt::format("{}-{}", first.name, number);
      host.port = free_port();
      file.hosts.insert(file.hosts.begin() + number - 1, host);
    }
    file.arbitrator.replicas.push_back(host.name);
  }
}

std::string write_models(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  const simulator::workload learns{.name = "swarm", .source = "made up for dynamix-node swarm"};
  for (const auto& [name, text] : {std::pair{fast, to_toml(made_up("fast", 0.5))},
                                   {slow, to_toml(made_up("slow", 1.5))},
                                   {workload, to_toml(learns)}})
    if (auto problem = storage::write_file_atomically(directory + "/" + name, text); !problem.empty())
      return problem;
  return {};
}

std::string place_arbitrators(cluster::cluster_file& file, const std::function<std::uint16_t()>& free_port) {
  const auto plan = cluster::plan_tree(file);
  for (std::size_t i = 1; i < plan.nodes.size(); ++i)
    if (!plan.nodes[i].stands_by) // a swarm loses no shard
      std::ranges::find(file.hosts, plan.nodes[i].host, &cluster::host::name)->port = free_port();
  return plan.error;
}

std::vector<std::uint32_t> shard_sizes(const cluster::cluster_file& file) {
  const auto plan = cluster::plan_tree(file);
  std::map<std::uint32_t, std::uint32_t> by_rank;
  for (const auto& node : plan.nodes)
    if (node.is_shard() && !node.stands_by)
      by_rank[node.first_rank] = node.workers;
  if (by_rank.empty())
    return std::vector<std::uint32_t>(file.workers().size(), 1);
  std::vector<std::uint32_t> sizes;
  for (const auto& [first, workers] : by_rank)
    sizes.push_back(workers);
  return sizes;
}

std::vector<std::vector<std::uint32_t>> deal_ranks(const std::vector<std::uint32_t>& shards, std::uint32_t processes) {
  std::vector<std::vector<std::uint32_t>> dealt(std::min<std::size_t>(processes, shards.size()));
  std::uint32_t next = 0;
  for (std::size_t i = 0; i < shards.size(); ++i)
    for (std::uint32_t left = shards[i]; left > 0; --left)
      dealt[i * dealt.size() / shards.size()].push_back(next++);
  return dealt;
}

std::uint32_t default_processes(std::uint32_t workers) {
  return std::clamp((workers + workers_a_process - 1) / workers_a_process, 1U, processes_most);
}

} // namespace dynamix::swarm
