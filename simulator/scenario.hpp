#pragma once

/// A cluster file with the profiles and the workload that it names: everything a simulation needs.

#include "cluster/cluster_file.hpp"
#include "simulator/device_profile.hpp"
#include "simulator/workload.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace dynamix::simulator {

/// What telemetry says of a machine that has nothing to do with its speed, and that differs from cluster to cluster.
struct surroundings {
  double rtt_factor = 1;           ///< of the sockets' RTT over twice the latency: queues in hosts
  double idle_memory_ratio = 0.2;  ///< resident set over physical memory, without a batch
  double batch_memory_ratio = 0.5; ///< and what the largest batch adds
};

struct scenario {
  cluster::cluster_file file;
  simulator::surroundings surroundings;
  simulator::workload workload;
  std::vector<device_profile> profiles; ///< of every worker of the file, by position
};

/// Reads what the file names. Errors: a worker without a profile, no workload, files that cannot be read or are wrong.
/// Empty: `result` is complete.
std::vector<cluster::file_error> load_scenario(const cluster::cluster_file& file, scenario& result);

/// The scenario as train-policy's environment number `seed` runs it: each host's speed and own bandwidth, the common
/// bandwidth, latency, noise, hiccups, phi, and the episodes' mean gaps and worst factors, each times exp(u) with a u
/// of its own, uniform in [-r, r], r = file.simulation.randomise; inside the fields' ranges. r = 0: the same scenario.
scenario randomise(const scenario& from, std::uint64_t seed);

} // namespace dynamix::simulator
