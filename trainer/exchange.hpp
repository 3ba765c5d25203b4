#pragma once

/// How the workers of one generation combine their tensors. Internal to the room: includes Torch.

#include "trainer/clock.hpp"
#include "trainer/session.hpp"
#include "trainer/store.hpp"

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

namespace dynamix::trainer {

/// A peer is gone, or the process group cannot be formed. Nothing more can be exchanged in this generation.
class exchange_error : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A collective in flight; it keeps its tensors alive.
class pending_exchange {
public:
  virtual ~pending_exchange() = default;
  /// Blocks until the result is there, at most for the collective time-out. Throws exchange_error.
  virtual void wait() = 0;
};

/// The collectives over one fixed set of workers. All of them call the same ones in the same order, with tensors of the
/// same shape and type, contiguous and in host memory. The result of a sum is the same on all ranks, bit for bit.
/// Every call may throw exchange_error. Destruction takes at most two seconds, also with a peer that no longer answers.
class exchange {
public:
  virtual ~exchange() = default;
  virtual std::uint32_t rank() const = 0;
  virtual std::uint32_t world_size() const = 0;
  /// Replaces `tensor` by its sum over all ranks.
  virtual std::unique_ptr<pending_exchange> all_reduce_sum(torch::Tensor tensor) = 0;
  /// Gathers `row` of every rank into `rows`, one row a rank.
  virtual std::unique_ptr<pending_exchange> all_gather(torch::Tensor row, torch::Tensor rows) = 0;
  /// Replaces `tensor` by rank 0's.
  virtual void broadcast(torch::Tensor tensor) = 0;
  /// Waits until every peer has all that it needs from this one. For the orderly end; ignores peers that are gone.
  virtual void leave() noexcept = 0;
};

/// Replaces `bytes` by rank 0's; the others need not know the length, at most 16 GiB.
void broadcast_bytes(exchange& peers, std::vector<std::uint8_t>& bytes);

/// Joins the process group of `place`. Blocks until all its workers are there. Throws exchange_error, which names the
/// ranks that did not come before the join time-out. `rendezvous` and `time` must outlive the exchange.
std::unique_ptr<exchange> join_exchange(const membership& place, store& rendezvous, clock& time);

} // namespace dynamix::trainer
