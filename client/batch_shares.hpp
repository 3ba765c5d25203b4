#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace dynamix::client {

/// Batch sizes of a generation's members: `batches[i]` is that of rank `members[i]`.
struct member_batches {
  std::vector<std::uint32_t> members; ///< ascending
  std::vector<std::uint32_t> batches;
};

/// What `members` train with after a generation with `before`: the same global batch, as far as the bounds allow it.
/// Who stays has a share in proportion to the batch before, or an equal one where they differ by a sample at most; who
/// is new the mean of those who stay; whose share lies outside of the bounds has the bound, and the others share the
/// rest. Whole samples by largest remainder, of equal ones the lower rank first. `highest[i]` is the bound of
/// `members[i]`, at most 2^20; where it lies below `lowest`, that member has it. Pure and in whole numbers: the same on
/// every machine.
std::vector<std::uint32_t> share_batches(const member_batches& before, std::span<const std::uint32_t> members,
                                         std::uint32_t lowest, std::span<const std::uint32_t> highest);

} // namespace dynamix::client
