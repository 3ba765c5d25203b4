#pragma once

/// Clusters on this machine whose training processes are the user's.

#include "cluster/cluster_file.hpp"
#include "node/launch/launcher.hpp"

#include <cstdint>
#include <functional>
#include <string>

namespace dynamix::node {

/// What `--workers N` stands for, as the text of a cluster file: an arbitrator and so many agents on free ports, with
/// the policy that comes with the program (goodput where its parameters are not to be found).
std::string make_client_cluster(std::uint32_t workers);

/// The directory that DYNAMIX_AGENT is to name: absolute.
std::string agent_directory(const run_directory& run);

/// Gives each worker's agent its socket, in the order of the workers.
void name_agents(launch_options& options);

/// Whether there is a socket at this path, as an agent's.
bool is_socket(const std::string& path);

/// Whether training processes can join at each of so many sockets of a run directory.
bool agents_listen(const run_directory& run, std::size_t count);

/// Sees that all agents of a run listen, and then says so once.
class agents_watch : public launch_observer {
public:
  agents_watch(const cluster::cluster_file& file, run_directory run, std::function<void()> listening)
      : agents_(file.workers().size()), run_(std::move(run)), listening_(std::move(listening)) {}

  void look(host_processes& hosts, const std::vector<ledger::row>& rows, bool training) override;
  std::string ended(const host_end&) override { return ""; }
  bool over() const override { return false; }
  /// From here on training processes may come, and an agent that dies is started again.
  bool begun() const override { return !listening_; }

private:
  std::size_t agents_;
  run_directory run_;
  std::function<void()> listening_; ///< empty once told
};

} // namespace dynamix::node
