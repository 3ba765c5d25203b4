#pragma once

#include "client/proportional_split.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace dynamix::client {

/// Where the sampler stands: `cursor` samples of epoch `epoch` have been dealt. 0 <= cursor < samples of an epoch.
struct sampler_position {
  std::uint64_t epoch = 0;
  std::uint64_t cursor = 0;
  friend bool operator==(const sampler_position&, const sampler_position&) = default;
};

/// One step's samples: a range of the epoch's permutation for every rank.
struct deal_result {
  std::uint64_t epoch = 0;
  std::vector<index_range> ranges; ///< by rank
  std::uint64_t samples = 0;       ///< of all ranks
  bool ends_epoch = false;
};

/// Deals one seeded permutation of all samples to the workers, so that each sample is used exactly once an epoch
/// whatever the batch sizes. All ranks run the same sampler with the same batch sizes and therefore agree without a
/// message.
///
/// The permutation of epoch e is a Fisher-Yates shuffle of 0..n-1 from the last position down, driven by
/// splitmix64(derive_seed(seed, e)): the same on every platform, and a resume needs only {epoch, cursor}.
class sampler {
public:
  /// `samples` in [1, 2^31). Not `shuffled`: every epoch is 0..n-1, which is kept nowhere.
  sampler(std::uint64_t seed, std::uint64_t samples, bool shuffled = true);

  /// The samples of the next step for workers with these batch sizes (by rank; at most 2^20 each). Where the epoch has
  /// fewer left than the workers ask for, the rest is split in proportion to the batch sizes, and a worker may get
  /// none. All batch sizes 0: deals nothing and stays where it is.
  deal_result deal(std::span<const std::uint32_t> batches);

  /// Sample numbers in a range of the epoch that was dealt from last. Valid until the next deal or restore.
  std::span<const std::uint32_t> samples_of(index_range range);

  sampler_position position() const;
  /// Samples that the epoch which was dealt from last still has.
  std::uint64_t left() const { return epoch_samples() - cursor_; }
  /// False, and no change, when the position lies outside an epoch.
  bool restore(sampler_position position);
  std::uint64_t epoch_samples() const { return samples_; }

private:
  void shuffle(std::uint64_t epoch);

  std::uint64_t seed_;
  std::uint64_t samples_;
  bool shuffled_;
  std::uint64_t epoch_ = 0;
  std::uint64_t cursor_ = 0;               ///< may equal the epoch's samples until the next deal
  std::vector<std::uint32_t> permutation_; ///< not shuffled: of the range that was asked for last
};

} // namespace dynamix::client
