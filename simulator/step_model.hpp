#pragma once

/// How long the parts of a step take. Pure.

#include "cluster/cluster_file.hpp"

#include <cstdint>
#include <span>

namespace dynamix::simulator {

/// When each of the jobs is done that start together and need `work` seconds of a core each: the unfinished ones share
/// the cores evenly, at most a core each. No cores: each job has its own. `finished` is as long as `work`.
void share_cores(std::span<const double> work, std::uint32_t cores, std::span<double> finished);

/// What the exchange of one step's gradients meets.
struct network {
  cluster::topology_kind topology = cluster::topology_kind::ring;
  std::size_t workers = 0;
  double gradient_bytes = 0;
  double slowest_link = 0; ///< bytes a second, of the workers
  double server_link = 0;  ///< bytes a second, of the parameter server
  double latency_seconds = 0;
  double loss_rate = 0; ///< [0, 1): share of segments sent again
};

/// Bytes that a worker sends in a step, and receives: 2(n-1)/n of the gradients in a ring, all of them to a parameter
/// server, none without peers.
double sent_bytes(const network& now);

/// T_sync. Ring: 2(n-1) messages of 1/n of the gradients one after the other, each over the slowest link. Parameter
/// server: everything through the server's link or one worker's through the slowest, whichever takes longer, in and
/// then out. What is lost is sent again: all divided by 1 - loss_rate. 0 without peers.
double exchange_seconds(const network& now);

/// T = (T_grad^g + T_sync^g)^(1/g): one after the other for g = 1, the longer of the two for g = infinity (Pollux,
/// arXiv 2008.12260).
double step_seconds(double computing_seconds, double exchange_seconds, double overlap);

} // namespace dynamix::simulator
