#pragma once

/// Who uses which items of an epoch: the one dealer of samples that have numbers and of streams. Pure; all members come
/// to the same plan from the same batch sizes, and no message is needed.
///
///     what waits --lease--> each member's stock, in pieces --use--> a step's batch
///                           fetched by its data loader
///
/// A member's data loader fetches only what the member has been leased, so batch sizes may change with every step: what
/// is in stock is used a little faster or slower, and the next leases make up for it.
///
/// L-1  Every item is leased to one member, and used once.
/// L-2  What is in a member's stock stays its own: nothing that may have been fetched is taken away.
/// L-3  Where no batch size changes, step t uses items tB to (t+1)B of the epoch, however far members fetch ahead.
/// L-4  No member uses more than its batch in a step; in an epoch's last steps, where everything is leased, more than
///      its limit.

#include <cstdint>
#include <span>
#include <vector>

namespace dynamix::client {

/// Items [first, last) of a shard. Samples that have numbers are one shard, the epoch's permutation.
struct item_range {
  std::uint64_t shard = 0;
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::uint64_t size() const { return last - first; }
  friend bool operator==(const item_range&, const item_range&) = default;
};

struct lease_options {
  std::uint32_t ahead = 0;          ///< batches that data loaders fetch ahead of the next one
  std::vector<std::uint32_t> lanes; ///< shards that each member reads at once, at least one; as many as members
  bool whole_shards = false;        ///< a lane leases a shard to its end, since shards are read from their beginning on
  bool drop_last = false;           ///< what fills no step of all members is not leased
  friend bool operator==(const lease_options&, const lease_options&) = default;
};

class leases {
public:
  leases() = default;
  /// Of an epoch, or the rest of one, whose items wait in this order. Below 2^31 items.
  leases(lease_options options, std::vector<item_range> waiting);

  /// Items that no step has used.
  std::uint64_t left() const { return left_; }

  /// Leases to each member its next batch and those that it fetches ahead, as long as there are items: nearly the same
  /// number of steps to all. A second time: leases nothing.
  void lease(std::span<const std::uint32_t> batches);

  /// How many items each member uses in the next step, behind `lease` with the same batch sizes, which are not all 0.
  /// Near the end of an epoch, where everything is leased, what members have may not suit their batch sizes any more.
  /// Then the step's items, as many as before, are shared in proportion to what members have, within their `limits` of
  /// at least 1, so that all come to the end in the same step. None where no items are left.
  std::vector<std::uint64_t> next_shares(std::span<const std::uint32_t> batches,
                                         std::span<const std::uint32_t> limits) const;
  /// The items that a member uses next, in the order of use; so many must be leased to it.
  std::vector<item_range> next_items(std::size_t member, std::uint64_t count) const;
  /// A step uses so many of each member's items.
  void use(std::span<const std::uint64_t> shares);

  // A member's pieces, each of which one fetch of its data loader gives; they are numbered from 0.

  std::uint64_t items_leased(std::size_t member) const { return members_[member].items; } ///< and not used
  std::uint64_t pieces_leased(std::size_t member) const { return members_[member].turn; }
  std::uint64_t pieces_used(std::size_t member) const;
  /// What of a piece is not used yet; it is leased, and not used up.
  std::vector<item_range> piece(std::size_t member, std::uint64_t number) const;

  /// What absent members have leased is leased to others next.
  void give_back(const std::vector<bool>& present);

  std::vector<std::uint64_t> save() const;
  /// Of `save`, and zeros behind it, with `lengths` of the shards, and `left` items. Where other members trained, or
  /// read as many shards at once, nobody has leased anything. False, and no change, where the words make no sense.
  bool restore(std::span<const std::uint64_t> words, std::span<const std::uint64_t> lengths, std::uint64_t left);

private:
  struct part {
    item_range items;
    bool ends_piece = true;
  };
  struct member_leases {
    std::vector<item_range> held; ///< by lane: of its shard, what is not in stock
    std::vector<part> stock;
    std::uint64_t items = 0; ///< in stock
    std::uint64_t turn = 0;  ///< pieces leased
  };

  std::vector<std::uint64_t> wanted(std::span<const std::uint32_t> batches) const;
  std::vector<std::uint64_t> last_shares(std::span<const std::uint32_t> batches,
                                         std::span<const std::uint32_t> limits) const;
  void add_piece(member_leases& to, std::uint64_t count);
  item_range next_range(std::uint64_t wanted);

  lease_options options_;
  std::vector<item_range> waiting_; ///< from `next_` on
  std::size_t next_ = 0;
  std::vector<member_leases> members_;
  std::uint64_t left_ = 0;
  std::uint64_t stocked_ = 0; ///< of them, in somebody's stock
};

} // namespace dynamix::client
