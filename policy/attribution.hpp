#pragma once

/// Where a step's time went, worker by worker. Pure.

#include "messages/types.hpp"

#include <vector>

namespace dynamix::policy {

/// Means over a window's steps, each >= 0; together they are iteration_seconds.
struct time_split {
  double compute_seconds = 0;  ///< computing, or held up by the emulated slow-down
  double cpu_wait_seconds = 0; ///< ready to compute, but without a CPU: a busy neighbour, or a used-up quota
  double network_seconds = 0;  ///< exchanging gradients at the speed of the network
  double barrier_seconds = 0;  ///< waiting for a peer, whatever held that one up
  double data_seconds = 0;     ///< fetching the batch
  double other_seconds = 0;    ///< optimiser, decisions, accounting
};

/// Splits the steps of each report of `shard`, in its order. With T, C, E and D the iteration, compute, exchange and
/// data seconds of worker i's report, all measured by its training thread:
///
///   w        share of time that the training thread was runnable without running; r: all threads together. Where the
///            thread alone was not measured, w = r; where neither was, both are 0
///   u        share of time that it ran; of all threads, at most 1, where it alone was not measured
///   c        = min(w T, C w / (w + u))
///                                  computing that waited for a CPU: where the thread had more to do than computing, as
///                                  much of each as of all
///   x_i      = min(E, (r - w) T + w T - c)
///                                  exchange that waited for a CPU: the training thread sleeps, those that send and
///                                  receive for it are ready and do not run, or it waits itself to go on. w T - c: 0
///                                  where the thread alone was not measured
///   cpu_wait = c + x_i
///   compute  = C - c
///   F        = min_j (E_j - x_j)   in a synchronous step the last to arrive waits for nobody, so its wait is what the
///                                  exchange itself takes; whatever another worker waits longer, it waits for peers
///   b_i      = s_i T               s: share of time with gradients sent that the network had not delivered
///   B        = min(F, max_j b_j)   the part of F that blocked senders explain: all wait for the most blocked one
///   network  = F - B + B b_i / max_j b_j
///                                  what no sender explains is everybody's (latency, protocol), and of B each has as
///                                  much as itself was blocked, beside the most blocked one
///   barrier  = E - x_i - network
///   data     = D,  other = T - C - E - D
///
/// So a slow peer shows as its own compute or cpu_wait and as the others' barrier, and a slow link as the network of
/// the host behind it, as less network of those whose acknowledgements pass it, and as the others' barrier. The minimum
/// goes over the workers of the shard whose report is of its window; a stale report is split by the same F. A report
/// without times has a split of zeros. Exchange that is hidden behind computing costs nothing and shows nowhere. What
/// helpers of the computing wait (OpenMP) cannot be told from what helpers of the exchange wait, and counts as x.
///
/// Source: the split of BSP steps by their slowest member (LB-BSP, arXiv 1806.02508, section 2), refined by what
/// TCP_INFO (tcpi_busy_time - tcpi_rwnd_limited, RFC 4898) and schedstat or sched_switch tell.
std::vector<time_split> attribute(const messages::shard_report& shard);

} // namespace dynamix::policy
