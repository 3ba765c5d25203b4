#pragma once

/// Lossless compression of sparse gradients, as a group over another one. What is summed as a plain bucket, gathered or
/// broadcast passes through unchanged; sparse buckets are summed by one of three forms:
///
/// - union_of_items: the members first agree on the items that any of them has (an OR of bits), then sum these alone.
/// - gather: every member's items go to all, and all add them up.
/// - lhc: sketches (exchange/sketch.hpp) are summed while the items are agreed on, and peeled. One round, but for items
///   that do not fit the scale or do not peel; these follow as they are, and are counted.
///
/// Whoever sums for the group below does it here, too: servers add the bits, the union's items and the sketches as they
/// are. They have no part in gather, where nobody sums for others.
///
/// union_of_items and gather give the float32 sum in the order of the members' positions, bit for bit; lhc the exact
/// sum, rounded once (zero is +0). All members have the same bits. (NaN is NaN, without a promise about its payload.)

#include "exchange/group.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace dynamix::exchange {

/// `automatic`: of none, union_of_items, gather and lhc whichever is measured to be the fastest
/// (exchange/form_choice.hpp), in a ring or through servers where the group has both ways, bucket by bucket. Sums have
/// the bits of the form that was in use.
using form = cluster::compression_kind;

/// Smaller sparse buckets are summed as plain ones: a round trip costs more than their bytes.
inline constexpr std::size_t compressed_bytes_min = 64 << 10;

/// What compressing came to, over all sparse buckets of a group.
struct compression_counts {
  std::uint64_t sums = 0;            ///< of buckets
  std::uint64_t own_items = 0;       ///< that this member brought
  std::uint64_t items = 0;           ///< of the unions
  std::uint64_t sketched = 0;        ///< summed by sketches
  std::uint64_t unfit = 0;           ///< did not fit the scale of their sketch on some member, and went as they are
  std::uint64_t unpeeled = 0;        ///< did not peel, and went as they are
  std::uint64_t unsketched_sums = 0; ///< of buckets without a sketch: the first, or of few items
  // Of buckets whose form is chosen by measurement.
  std::uint64_t dense_sums = 0;
  std::uint64_t union_sums = 0;
  std::uint64_t gather_sums = 0;
  std::uint64_t lhc_sums = 0;
  std::uint64_t server_sums = 0; ///< of all these: through servers, where the ring was there too

  bool operator==(const compression_counts&) const = default;
};

/// A group that compresses sparse buckets. Takes `below` over; returns it as it is for form::none and for a group of
/// one. `counts` must outlive the group and its buckets. `told`, of form::automatic, may be empty.
std::unique_ptr<group> compress(std::unique_ptr<group> below, form how, compression_counts& counts,
                                choice_teller told = {});

} // namespace dynamix::exchange
