#pragma once

/// The batch sizes of the next step from what all workers know of each other: a pure function of the same numbers on
/// all of them, so none has to ask and none has to answer. Without Torch.

#include "messages/types.hpp"
#include "policy/pace_tracker.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
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
/// than 2 % above theirs or a worker is not measured yet. While the noise scale is not measured the global batch stays,
/// and work moves only for 2 % and d. A step lasts as long as the slowest of n noisy workers, whose expected time is
/// that of the mean times e^(d m_n), with d the mean deviation of a step's logarithm and m_n the expected maximum of n
/// standard normal numbers (Cramér, "Mathematical Methods of Statistics", 1946, 28.6, for large n).
reflex_plan react(const reflex_field& field);

/// A mark as it travels: 16 bytes, a worker's slot of what the workers sum at every step. All others add zeros to it,
/// so the sum is the mark itself, bit for bit, on all of them.
inline constexpr std::size_t mark_floats = 4;
using mark_slot = std::array<float, mark_floats>;

/// Finite whatever the mark is.
mark_slot encode(const pace_mark& mark);
/// Not measured, where the numbers are none that a step can have.
pace_mark decode_mark(std::span<const float, mark_floats> slot);

/// The reflex of one generation's workers, the same on each: what all conclude from all slots. It moves work between
/// them, and keeps the global batch, which the policy decides.
class reflex {
public:
  /// `highest`: one a worker, each at least `lowest`.
  reflex(std::uint32_t lowest, std::vector<std::uint32_t> highest) : lowest_(lowest), highest_(std::move(highest)) {}

  /// The slot of the worker at this position: its own step times around the one that all marks speak of.
  mark_slot mark(const pace_tracker& own, std::size_t position, std::uint32_t in_force) const;
  /// The batch sizes of the next step from all slots, by position, and what is in force, with the same sum. What is in
  /// force stays while a worker has not been measured, and for one step where its sum lies far from the last one's: the
  /// marks speak of other batch sizes then.
  std::vector<std::uint32_t> react(std::span<const float> slots, const std::vector<std::uint32_t>& in_force);

private:
  std::uint32_t lowest_;
  std::vector<std::uint32_t> highest_;
  double target_seconds_ = 0; ///< that the marks speak of; 0: each of its own step
  std::uint64_t total_ = 0;   ///< of the last step
};

/// What the reflex did to one worker in a window, for its report.
class reflex_account {
public:
  /// Of a step that runs with `in_force`, where the decision says `decided`; the marks have just changed the batch
  /// sizes of any worker (`moved`).
  void add(std::uint32_t in_force, std::uint32_t decided, bool moved);
  /// Of the steps since the last call.
  messages::reflex_statistics take(const pace_tracker& own);

private:
  messages::reflex_statistics sums_;
  std::uint64_t changes_before_ = 0;
  std::optional<double> pace_before_; ///< nothing before the first window that was measured
};

} // namespace dynamix::policy
