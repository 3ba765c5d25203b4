#pragma once

/// How a fixed set of workers combine what they computed: plain memory and numbers. Knows neither a model nor its
/// tensors, and includes no Torch; what moves the bytes (a ring, servers) is an implementation's business.

#include "cluster/server_plan.hpp"
#include "exchange/interruption.hpp"
#include "exchange/rendezvous.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

namespace dynamix::exchange {

/// A peer is gone, the interruption was raised, or the group cannot be formed. Nothing more can be exchanged in this
/// group.
class error : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Throws exchange::error with the reason once `stop` is raised.
void throw_if_raised(const interruption& stop);

enum class element : std::uint8_t { float32, float64 };

/// What all members sum in one collective, once or step after step: fill both spans, `start`, `wait`, read the sums
/// from the same spans. The memory is the bucket's own, since a sum that is given up may still be written into for a
/// while: between `start` and the end of `wait` nobody else may touch it, and whoever keeps a view keeps the bucket.
class bucket {
public:
  virtual ~bucket() = default;
  /// Gradients: summed in the precision of their element type, in some order of the implementation's, the same on all
  /// members; which one may follow from measured times (summing::automatic, form::automatic).
  virtual std::variant<std::span<float>, std::span<double>> gradients() = 0;
  /// Numbers that ride along. Their sum is exact, whatever the element type, and rounded once: so it depends neither on
  /// the order of the members nor on the implementation. Parts below 2^-144 are cut off, what exceeds 2^144 becomes
  /// infinite. In a group of up to 4,096 members.
  virtual std::span<double> sums() = 0;
  /// Must not be called once the group is gone.
  virtual void start() = 0;
  /// Blocks until the sums are there, the interruption is raised or the collective time-out is over.
  virtual void wait() = 0;
  /// Of a bucket that leaves out zeros: the numbers of the items that may hold anything but +0, each once, in ascending
  /// order. Before `start` the caller says which they are on this member, after `wait` it finds those of all members.
  /// Null for a bucket that sums all it has.
  virtual std::vector<std::uint32_t>* touched() { return nullptr; }
  /// Whole numbers that every member tells all others, as many of each (exchange/row_bucket.hpp), in the order of
  /// positions: before `start` the caller writes its own there, after `wait` it finds those of all. Else empty.
  virtual std::span<std::int64_t> rows() { return {}; }
};

/// A gather in flight.
class gathering {
public:
  virtual ~gathering() = default;
  /// Blocks as a bucket's does. The rows of all members one after the other, in the order of their positions.
  virtual std::vector<std::int64_t> wait() = 0;
};

/// A collective in flight over memory that is shared with it, since one that is given up may go on for a while.
class pending {
public:
  virtual ~pending() = default;
  /// Blocks as a bucket's does.
  virtual void wait() = 0;
};

using shared_words = std::shared_ptr<std::vector<std::uint64_t>>;
using shared_floats = std::shared_ptr<std::vector<float>>;

/// How several members' floats become one (exchange/float_sum.hpp): by additions in the order of positions, each
/// rounded, or exactly, rounded once.
enum class float_sum : std::uint8_t { in_order, exact };

/// How all members' words become one; `add` is modulo 2^64.
enum class combining : std::uint8_t { bitwise_or, add };

class group;

/// Where each sum may go in a ring or through servers.
struct both_ways {
  group* ring = nullptr;
  group* servers = nullptr;
  double servers_time = 1; ///< predicted, of the same sum in the ring
  bool by_servers = false; ///< what plain buckets do
};

/// Begins to sum `floats` as group::sum does, by blocks: every member adds up a share of them, and all gather what has
/// come out.
std::unique_ptr<pending> sum_by_blocks(group& through, std::span<float> floats, float_sum how);

/// A broadcast of more than this is refused.
inline constexpr std::size_t broadcast_bytes_max = std::size_t{16} << 30;

/// The collectives of one group. All members call the same ones in the same order with the same sizes. Results are the
/// same on all members, bit for bit. Every call may throw exchange::error. Destruction takes at most two seconds,
/// with servers five, also with a peer that no longer answers; without a `leave` before it, it breaks what the peers
/// still wait for.
class group {
public:
  virtual ~group() = default;
  /// Of this worker among the members.
  virtual std::uint32_t position() const = 0;
  /// The number of members.
  virtual std::uint32_t size() const = 0;
  /// A bucket of so many gradients and so many sums (not both 0), all zero.
  virtual std::unique_ptr<bucket> make_bucket(element type, std::size_t gradients, std::size_t sums) = 0;
  /// A bucket of float32 gradients that are items of `item_floats` numbers each, few of which are touched in a step: an
  /// embedding's rows. A group that does not compress, of more than one member, makes a plain bucket of them.
  virtual std::unique_ptr<bucket> make_sparse_bucket(std::size_t items, std::size_t item_floats, std::size_t sums) {
    return make_bucket(element::float32, items * item_floats, sums);
  }
  /// Begins to gather `row`, which holds at least one number, from every member.
  virtual std::unique_ptr<gathering> all_gather(std::span<const std::int64_t> row) = 0;
  /// Begins to combine `words`, which has one size on all members, into the same memory.
  virtual std::unique_ptr<pending> combine(shared_words words, combining how) = 0;
  /// Begins to sum `floats`, as many on all members and not none, into the same memory, which `owner` keeps. So what
  /// comes out does not depend on who adds, nor on how floats are shared out.
  virtual std::unique_ptr<pending> sum(std::span<float> floats, std::shared_ptr<void> owner, float_sum how) {
    static_cast<void>(owner); // the blocks are copies
    return sum_by_blocks(*this, floats, how);
  }
  /// The groups of the same members between which each sum may choose, alike on all; nothing where there is one way.
  virtual std::optional<both_ways> ways() { return std::nullopt; }
  /// Begins to send the member at position i the i-th of `size()` equal blocks; `into`, of the same size, receives the
  /// members' blocks for this one, in their order.
  virtual std::unique_ptr<pending> exchange_blocks(shared_floats blocks, shared_floats into) = 0;
  /// The bytes of the member at position `root`, whose number only it needs to know. The others' `bytes` are ignored.
  virtual std::vector<std::uint8_t> broadcast(std::uint32_t root, std::span<const std::uint8_t> bytes) = 0;
  /// Waits until every peer has all that it needs from this one. For the orderly end; ignores peers that are gone.
  /// `word`: what servers of the group (place::servers) are told, the same on all members.
  virtual void leave(std::uint64_t word) noexcept = 0;
  void leave() noexcept { leave(0); }
};

/// A group whose other members take no time and contribute nothing but zeros. This worker has position 0. With `size` 1
/// what a worker without peers needs; with more, what a step costs without its exchange.
std::unique_ptr<group> make_silent_group(std::uint32_t size);

/// For a person: by whom and in which form is summed from now on, and why. Told alike on all members.
using choice_teller = std::function<void(const std::string&)>;

using summing = cluster::exchange_kind;

/// What was measured when a group was joined, and what follows from it. The same on all members and servers.
struct summing_plan {
  std::vector<double> link_rates; ///< bytes per second each way, by position; servers' behind the members'
  cluster::server_plan servers;
  bool by_servers = false;
};

/// Joins the group of `own` as one of its members. Blocks until all of them and their servers are there. Throws
/// exchange::error, which names the ranks that did not come before the join time-out. `stop` must outlive the group;
/// `rendezvous` is not used after the call. With anything but summing::ring, or with servers, and more than one member
/// it then measures the links, 0.1 s with each of up to 8, and leaves what it has found in `plan`, unless that is null.
/// Under summing::automatic the group has both ways, begins with the planned one, and measures which is faster; then
/// `told` is told of changes, unless it is empty.
std::unique_ptr<group> join(const place& own, store& rendezvous, const interruption& stop, summing how = summing::ring,
                            summing_plan* plan = nullptr, choice_teller told = {});

/// Joins the group of `own` as one of its servers, tells `ready` what is planned, and sums its share of the members'
/// gradients until they leave. Returns the word that they left with. Throws exchange::error when a peer is lost or
/// `stop` is raised.
std::uint64_t serve(const place& own, store& rendezvous, const interruption& stop, summing how,
                    const std::function<void(const summing_plan&)>& ready);

} // namespace dynamix::exchange
