#pragma once

/// How the workers of one generation combine their tensors. Internal to the room: includes Torch.

#include "trainer/clock.hpp"
#include "trainer/interruption.hpp"
#include "trainer/session.hpp"
#include "trainer/store.hpp"

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>

namespace dynamix::trainer {

/// A peer is gone, the generation was interrupted, or the process group cannot be formed. Nothing more can be exchanged
/// in this generation.
class exchange_error : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Throws exchange_error with the reason once `stop` is raised.
void throw_if_raised(const interruption& stop);

/// A collective in flight; it keeps its tensors alive. One that was waited for in vain may still write into them.
class pending_exchange {
public:
  virtual ~pending_exchange() = default;
  /// Blocks until the result is there, the interruption is raised or the collective time-out is over. Throws
  /// exchange_error.
  virtual void wait() = 0;
};

/// The collectives over one fixed set of workers. All of them call the same ones in the same order, with tensors of the
/// same shape and type, contiguous, in host memory and owning it. The result of a sum is the same on all members, bit
/// for bit. Every call may throw exchange_error. Destruction takes at most two seconds, also with a peer that no longer
/// answers; without a `leave` before it, it breaks what the peers still wait for.
class exchange {
public:
  virtual ~exchange() = default;
  /// Of this worker among the members.
  virtual std::uint32_t position() const = 0;
  virtual std::uint32_t world_size() const = 0;
  /// Replaces `tensor` by its sum over all members.
  virtual std::unique_ptr<pending_exchange> all_reduce_sum(torch::Tensor tensor) = 0;
  /// Gathers `row` of every member into `rows`, one row a member.
  virtual std::unique_ptr<pending_exchange> all_gather(torch::Tensor row, torch::Tensor rows) = 0;
  /// Replaces `tensor` by that of the member at `root`.
  virtual void broadcast(torch::Tensor tensor, std::uint32_t root) = 0;
  /// Waits until every peer has all that it needs from this one. For the orderly end; ignores peers that are gone.
  virtual void leave() noexcept = 0;
};

/// The bytes of the member at `root`, on all, as a tensor of uint8; at most 16 GiB. The others' `bytes` do not matter.
torch::Tensor broadcast_bytes(exchange& peers, std::uint32_t root, std::span<const std::uint8_t> bytes);

/// The place of `rank` among the members, or their number when it is none of them.
std::uint32_t position_of(const membership& place, std::uint32_t rank);

/// Joins the process group of `place`. Blocks until all its members are there. Throws exchange_error, which names the
/// ranks that did not come before the join time-out. `stop` must outlive the exchange; `rendezvous` is not used after
/// the call.
std::unique_ptr<exchange> join_exchange(const membership& place, store& rendezvous, clock& time,
                                        const interruption& stop);

} // namespace dynamix::trainer
