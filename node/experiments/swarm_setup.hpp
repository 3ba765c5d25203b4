#pragma once

/// From a command line to the processes of a swarm.

#include "cluster/cluster_file.hpp"
#include "node/commands/command.hpp"
#include "node/experiments/swarm_run.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace dynamix::node {

struct swarm_arguments {
  std::uint32_t workers = 0; ///< 0: those of the file
  std::string cluster;
  std::string topology;
  std::string fanout;
  std::string policy;
  std::uint32_t replicas = 1; ///< of the arbitrator, or of the tree's root
  bool kill_leader = false;
  std::uint32_t windows = 30;
  std::uint32_t warm_up = 3;
  std::uint32_t interval_ms = 1000;
  std::uint32_t processes = 0; ///< 0: as many as it takes
  std::string seed;
  std::vector<std::string> set;
  std::string out;
  bool insecure = false;
  bool quiet = false;
  bool json = false;
  std::uint32_t part = 0;
  std::string keys; ///< of a part
};

/// A directory that is removed with its owner, unless it is to be kept.
class swarm_directory {
public:
  swarm_directory() = default;
  /// `keep`: a path; empty: one of its own below the directory for temporary files. Throws std::system_error.
  explicit swarm_directory(const std::string& keep);
  swarm_directory(const swarm_directory&) = delete;
  ~swarm_directory();
  const std::string& path() const { return path_; }

private:
  std::string path_;
  bool temporary_ = false;
};

struct swarm_setup {
  std::unique_ptr<swarm_directory> directory;
  cluster::cluster_file file;
  std::string keys; ///< made for this swarm; empty: it talks in the clear
  swarm_run_options run;
};

/// The ranks of each process that holds workers.
std::vector<std::vector<std::uint32_t>> swarm_ranks(const cluster::cluster_file& file, std::uint32_t processes);
/// The same by the processes' names.
std::map<std::string, std::set<std::uint32_t>> swarm_stand_ins(const cluster::cluster_file& file,
                                                               std::uint32_t processes);

/// Returns exit_done, or what to end with after the reason has been written.
int prepare_swarm(const swarm_arguments& arguments, swarm_setup& setup, command_context& context);
/// "swarm of 1,024 workers in 2 processes, ..."
std::string describe(const swarm_setup& setup);
swarm_result sum_up(const swarm_setup& setup, const swarm_run& made);

} // namespace dynamix::node
