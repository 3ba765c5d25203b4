#pragma once

/// How long the parts of a step take. Pure.

#include "cluster/cluster_file.hpp"
#include "cluster/server_plan.hpp"
#include "exchange/form_choice.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace dynamix::simulator {

/// When each of the jobs is done that begin at `ready` and need `work` seconds of a core each: the unfinished ones
/// share the cores evenly, at most a core each. No cores: each job has its own. All spans are of one length.
void share_cores(std::span<const double> ready, std::span<const double> work, std::uint32_t cores,
                 std::span<double> finished);

/// What the exchange of one step's gradients meets.
struct network {
  std::vector<cluster::exchange_host> hosts; ///< with their links as they are now: the workers, then who only serves
  std::vector<double> shares; ///< of the gradients, by host, that they sum as servers; empty: a ring sums
  std::size_t workers = 0;
  double gradient_bytes = 0; ///< of dense gradients
  double latency_seconds = 0;
  double loss_rate = 0; ///< [0, 1): share of segments sent again
  // Of an embedding's rows, beside these.
  exchange::form compression = exchange::form::none;
  exchange::form_load sparse; ///< of the newest step's batch sizes; no items: there are none
};

/// The shares that hosts get for a generation: planned for their links as they are, of which nearly equal ones count as
/// equal (cluster/server_plan.hpp). Empty: a ring sums, as `how` says, because it is predicted to be no slower, or for
/// want of a second worker.
std::vector<double> planned_shares(std::span<const cluster::exchange_host> hosts, cluster::exchange_kind how);

/// How sparse rows are summed: as the compression says or, where it is automatic, in the way that moves the fewest
/// bytes over the slowest link. `load.servers_time` is that of these hosts and shares.
exchange::route route_of(const network& now);

/// Bytes that a worker sends in a step, and receives, on average: 2(n-1)/n of the gradients in a ring, all of them and
/// what it sums for others with servers, none without peers.
double sent_bytes(const network& now);

/// T_sync. Ring: 2(n-1) messages of 1/n of the gradients one after the other, each over the slowest link. Servers: what
/// the host takes that takes the longest with its share (cluster/server_plan.hpp), and two messages' latency.
/// Compressed rows take what they move (exchange/form_choice.hpp), the computing of sketches and sums left out. What is
/// lost is sent again: all divided by 1 - loss_rate. 0 without peers.
double exchange_seconds(const network& now);

/// T = (T_grad^g + T_sync^g)^(1/g): one after the other for g = 1, the longer of the two for g = infinity (Pollux,
/// arXiv 2008.12260).
double step_seconds(double computing_seconds, double exchange_seconds, double overlap);

/// Processes that compute on the cores of one machine, and of which some wait after computing as if their host were
/// slower (trainer/emulation.hpp). A worker hands its gradients in before it waits, so the others go on without it, and
/// compute while it sleeps: it begins its next step late. Steps therefore depend on the one before.
class shared_cores {
public:
  shared_cores(std::uint32_t cores, std::size_t workers) : cores_(cores), ready_(workers), finished_(workers) {}

  /// The seconds of one step. `computing`: what each worker's takes, from its beginning to its end, waiting for a core
  /// but not for its slow-down.
  double step_seconds(std::span<const double> work, std::span<const double> slowdown, double exchange_seconds,
                      double overlap, std::span<double> computing);

private:
  std::uint32_t cores_;
  std::vector<double> ready_; ///< when each begins, after the exchange of the step before
  std::vector<double> finished_;
};

} // namespace dynamix::simulator
