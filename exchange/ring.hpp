#pragma once

#include "exchange/group.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace dynamix::exchange {

/// A message between two members on its way, over memory that must outlive it.
class transfer {
public:
  virtual ~transfer() = default;
  /// Blocks until the message has left or come. Throws exchange::error when a peer is gone, the group was destroyed
  /// before it had been left, or the collective time-out is over, which breaks the group. No interruption ends it.
  virtual void wait() = 0;
  /// The same for as long as it takes: for what comes when the peer likes.
  virtual void wait_for_long() = 0;
};

/// Messages between two members, from any thread. Those of one sender to one receiver in one lane come in the order in
/// which they were sent. The receiver knows each one's length, which is not 0, and none travels before it is being
/// received. Outlives the group, but is of no use then. Every call may throw exchange::error.
class peer_messages {
public:
  virtual ~peer_messages() = default;
  /// Begins to send `bytes` to the member at position `to`.
  virtual std::unique_ptr<transfer> send(std::uint32_t to, std::uint8_t lane, std::span<const std::byte> bytes) = 0;
  virtual std::unique_ptr<transfer> receive(std::uint32_t from, std::uint8_t lane, std::span<std::byte> bytes) = 0;
};

/// A bucket of float32 that others can sum, too, instead of `start` and `wait`.
class flat_bucket : public bucket {
public:
  /// All that is summed, gradients and what the sums are made of, until `unpack` takes the sums out of it again.
  virtual std::span<float> pack() = 0;
  virtual void unpack() = 0;
};

/// A group that sums in a ring, over connections that also carry messages between two members.
class ring_group : public group {
public:
  virtual std::shared_ptr<peer_messages> messages() = 0;
  /// As make_bucket for float32.
  virtual std::unique_ptr<flat_bucket> make_flat_bucket(std::size_t gradients, std::size_t sums) = 0;
};

/// As `join`, by collectives (exchange/collectives.hpp) over connections between all pairs of members
/// (exchange/meeting.hpp), over links where the members have them.
std::unique_ptr<ring_group> join_ring(const place& own, store& rendezvous, const interruption& stop);

} // namespace dynamix::exchange
