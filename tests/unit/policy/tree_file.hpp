#pragma once

/// The cluster file of a tree of three shards, as tests of what it decides and of what its ledger holds have it.

#include "cluster/cluster_file.hpp"

#include <cstdint>
#include <string>

namespace dynamix::policy {

inline constexpr std::uint32_t tree_workers = 24;
inline constexpr std::uint32_t tree_shards = 3;

/// The guard is on where nothing is learned: it lets an untrained ppo-add do nothing.
inline cluster::cluster_file tree_file(cluster::policy_kind policy,
                                       cluster::policy_mode mode = cluster::policy_mode::infer) {
  cluster::cluster_file file;
  file.name = "tree";
  file.seed = 11;
  file.arbitrator.policy = policy;
  file.arbitrator.static_batch = 96;
  file.arbitrator.mode = mode;
  file.arbitrator.guard = mode == cluster::policy_mode::infer;
  file.arbitrator.topology = cluster::arbitration_topology::tree;
  file.arbitrator.fanout = tree_workers / tree_shards;
  file.hosts.push_back({.name = "hub", .port = 1, .roles = {cluster::role::arbitrator}});
  for (std::uint32_t rank = 0; rank < tree_workers; ++rank)
    file.hosts.push_back({.name = "w" + std::to_string(rank), .port = static_cast<std::uint16_t>(rank + 2)});
  return file;
}

} // namespace dynamix::policy
