#pragma once

/// The batch sizes of the next step from what all workers know of each other: a pure function of the same numbers on
/// all of them, so none has to ask and none has to answer. Without Torch.

#include "policy/pace_tracker.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace dynamix::policy {

/// What all workers see alike.
struct reflex_field {
  std::vector<pace_mark> marks;        ///< one a worker
  std::vector<std::uint32_t> in_force; ///< batch sizes
  std::vector<std::uint32_t> highest;
  std::uint32_t lowest = 1;
  std::uint64_t initial_total = 1; ///< B0
  std::uint64_t highest_total = 0; ///< that may be tried now
  double target_seconds = 0;       ///< that the marks speak of, > 0
  double noise_scale = -1;         ///< samples; negative while not measured
  double exchange_seconds = 0;     ///< of a step, in which nobody computes
};

struct reflex_plan {
  std::vector<std::uint32_t> batches;
  double seconds = 0; ///< that the slowest computes by the marks, noise left out
  bool moved = false; ///< not what was in force
};

/// The batch sizes with the highest goodput (policy/measured_cluster.hpp) by the marks, those in force where it is less
/// than 2 % above theirs or a worker is not measured yet. The global batch stays while the noise scale is not measured.
/// A step lasts as long as the slowest of n noisy workers, whose expected time is that of the mean times e^(d m_n),
/// with d the mean deviation of a step's logarithm and m_n the expected maximum of n standard normal numbers (Cramér,
/// "Mathematical Methods of Statistics", 1946, 28.6, for large n).
reflex_plan react(const reflex_field& field);

} // namespace dynamix::policy
