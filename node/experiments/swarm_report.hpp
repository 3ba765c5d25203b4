#pragma once

/// What came of a swarm, for people and for programs. Pure.

#include "swarm/conductor.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace dynamix::node {

/// The processes of one level: the central arbitrator or the tree's root; shards; the workers themselves.
struct level_usage {
  std::string name;
  std::uint32_t processes = 0;
  double cpu_seconds = 0;         ///< of all, in the windows that count
  double busiest_cpu_seconds = 0; ///< of the one that used most
  std::uint64_t idle_bytes = 0;   ///< of memory, before the first worker came
  std::uint64_t memory_bytes = 0; ///< after the last window
  std::uint64_t messages = 0;     ///< to and from the workers in those windows; 0: none
};

struct swarm_result {
  std::string cluster;
  std::string policy;
  bool links = false; ///< over which its processes talked; else in the clear
  std::string topology;
  std::uint32_t workers = 0;
  std::uint32_t interval_ms = 0;
  std::uint32_t detect_ms = 0;      ///< the cluster file's
  std::uint32_t cores = 0;          ///< of this machine
  std::uint64_t decisions_made = 0; ///< by the ledger, warm-up included
  std::vector<level_usage> levels;  ///< from the root to the workers
  swarm::swarm_outcome outcome;
  std::uint32_t replicas = 1;
  std::string killed;              ///< the replica that led; empty: none was killed
  std::uint64_t killed_before = 0; ///< window that counts, from 1 on
  std::vector<float> after_kill;   ///< that window's end to its decisions applied, seconds
};

std::string swarm_text(const swarm_result& result);
/// One JSON object, indented.
std::string swarm_json(const swarm_result& result);
/// "window 12/30  p50 3.1 ms  p99 8.2 ms  lost 0": of the windows so far.
std::string swarm_progress(const swarm::swarm_outcome& so_far, std::uint32_t windows);

} // namespace dynamix::node
