#pragma once

/// Shares of a global batch between two decisions: from what every worker tells of its own pace in each step
/// (session/step_row.hpp), all workers come to the same batch sizes for the next one. Pure, without Torch.
///
/// Chance is not a change. Batch sizes stay, and begin as the script or the cluster file has them, unless the slowest
/// worker would still be the slowest if every worker's pace were mistaken by as much as chance explains. Shares that
/// are even are left only for a gain that somebody would notice, and taken again where they cost nothing.

#include "policy/pace_tracker.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace dynamix::policy {

struct balanced_worker {
  pace_estimate pace;
  std::uint32_t batch = 0;   ///< in force
  std::uint32_t lowest = 1;  ///< it may be given
  std::uint32_t highest = 1; ///< at least `lowest`
};

/// Why batch sizes are what they are.
enum class balance_reason : std::uint8_t {
  unmeasured, ///< of a worker at least: the shares in force stay
  kept,       ///< others would not be better by more than chance explains
  moved,      ///< to where all workers take as long
  evened      ///< since nobody is slower than the others
};

struct balanced_step {
  std::vector<std::uint32_t> batches; ///< in the order of the workers; they add up to `total` where the limits allow it
  balance_reason reason = balance_reason::unmeasured;
  // By the paces; 0 where somebody is not measured.
  double slowest_seconds = 0; ///< of the worker that computes longest with its batch
  double held_seconds = 0;    ///< the same of those who can take no less
  double supply = 0;          ///< samples that all who can take more or less compute in a second more
  bool full = false;          ///< somebody cannot take more, and could take less
};

/// The global batch of the next step where nobody decides: the median of what the workers propose, at least one of
/// them; 0 stands for what is in force.
std::uint64_t median_total(std::vector<std::uint64_t> proposed, std::uint64_t in_force);

/// Shares of `total` samples in the next step. In additions, multiplications, divisions and square roots alone, which
/// every processor rounds alike: so workers that have the same numbers have the same result, to the bit.
balanced_step balance(std::uint64_t total, std::span<const balanced_worker> workers);

} // namespace dynamix::policy
