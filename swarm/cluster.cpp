#include "swarm/cluster.hpp"

#include "simulator/device_profile.hpp"
#include "simulator/workload.hpp"
#include "storage/atomic_file.hpp"

#include <algorithm>
#include <filesystem>

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
  file.secret_file.clear();
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
    host.name = "w" + std::to_string(rank + 1);
    host.port = static_cast<std::uint16_t>(rank + 1); // nobody listens there
    host.emulate = kind.emulate;
    host.batch_highest = kind.batch_highest;
    host.bandwidth_mbit = kind.bandwidth_mbit;
    host.profile =
        made_up && !kind.profile.empty() ? model(from.workers()[rank % kinds.size()]->profile) : kind.profile;
  }
  return file;
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

std::vector<std::vector<std::uint32_t>> deal_ranks(std::uint32_t workers, std::uint32_t processes,
                                                   std::uint32_t shard) {
  const auto shards = (workers + shard - 1) / shard;
  std::vector<std::vector<std::uint32_t>> dealt(std::min(processes, shards));
  for (std::uint32_t rank = 0; rank < workers; ++rank)
    dealt[std::uint64_t{rank / shard} * dealt.size() / shards].push_back(rank);
  return dealt;
}

std::uint32_t default_processes(std::uint32_t workers) {
  return std::clamp((workers + workers_a_process - 1) / workers_a_process, 1U, processes_most);
}

} // namespace dynamix::swarm
