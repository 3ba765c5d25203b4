#pragma once

#include "client/leases.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace dynamix::client {

/// Where training stands in its data: `cursor` items of epoch `epoch` have been used. 0 <= cursor < items of an epoch.
struct sampler_position {
  std::uint64_t epoch = 0;
  std::uint64_t cursor = 0;
  friend bool operator==(const sampler_position&, const sampler_position&) = default;
};

/// The order of an epoch's items: a seeded permutation of the samples' numbers, or of a stream's shards, whose items
/// keep theirs.
///
/// The permutation of epoch e is a Fisher-Yates shuffle of 0..n-1 from the last position down, driven by
/// splitmix64(derive_seed(seed, e)): the same on every platform.
class sampler {
public:
  /// `lengths` of the shards, below 2^31 items in all; samples that have numbers are one shard. Not `shuffled`: every
  /// epoch is in order, and no permutation is kept.
  sampler(std::uint64_t seed, std::vector<std::uint64_t> lengths, bool shuffled = true, bool stream = false);

  /// What an epoch's leases begin with, but for so many items at its beginning (only of samples that have numbers).
  std::vector<item_range> items_of(std::uint64_t epoch, std::uint64_t used = 0);

  /// Numbers of samples, which the ranges are places of in the epoch's permutation.
  std::vector<std::uint32_t> numbers_of(std::uint64_t epoch, std::span<const item_range> ranges);

  /// One that stands in for a member's items where it has none; it does not count.
  item_range stand_in() const;

  const std::vector<std::uint64_t>& lengths() const { return lengths_; }
  bool is_stream() const { return stream_; }

private:
  void shuffle(std::uint64_t epoch);

  std::uint64_t seed_;
  std::vector<std::uint64_t> lengths_;
  bool shuffled_;
  bool stream_;
  std::uint64_t items_;
  std::uint64_t epoch_ = UINT64_MAX; ///< of `order_`
  std::vector<std::uint32_t> order_;
};

} // namespace dynamix::client
