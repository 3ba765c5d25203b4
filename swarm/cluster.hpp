#pragma once

/// The cluster that a swarm stands for.

#include "cluster/cluster_file.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace dynamix::swarm {

/// What stands in where no cluster file is given: half of the hosts fast, half three times as slow; the learned policy.
cluster::cluster_file default_cluster();

/// `from` with so many workers, all on this machine: its workers in turn, again and again, as "w1", "w2", ..., and one
/// arbitrator "arbitrator" on `port`. Replicas and hosts that come and go are left out, and every host has cores of
/// its own. Where the file names no workload or no profile, those of write_models below `models` stand in.
cluster::cluster_file describe(const cluster::cluster_file& from, std::uint32_t workers, std::uint16_t port,
                               const std::string& models);

/// Puts so many replicas in the one arbitrator's place: "arbitrator", "arbitrator-2", ...
void add_replicas(cluster::cluster_file& file, std::uint32_t replicas, const std::function<std::uint16_t()>& free_port);

/// Writes a workload and two device profiles, made up, into the directory. Empty, or what went wrong.
std::string write_models(const std::string& directory);

/// Gives every arbitrator below the root of the file's tree a port of its own from `free_port`. Empty, or why there is
/// no tree.
std::string place_arbitrators(cluster::cluster_file& file, const std::function<std::uint16_t()>& free_port);

/// How many workers each shard of the file's tree has, in the order of ranks; without a tree each worker stands alone.
std::vector<std::uint32_t> shard_sizes(const cluster::cluster_file& file);

/// The ranks of each of so many processes at most: nearly equal shares, those of one shard together.
std::vector<std::vector<std::uint32_t>> deal_ranks(const std::vector<std::uint32_t>& shards, std::uint32_t processes);
/// As many as workers need: one for 512, at most 8.
std::uint32_t default_processes(std::uint32_t workers);

} // namespace dynamix::swarm
