#pragma once

#include "messages/types.hpp"

#include <array>
#include <cstdint>
#include <mutex>
#include <string>

namespace dynamix::session {

/// What became of a decision that was offered.
enum class offer_verdict : std::uint8_t { accepted, duplicate, stale, wrong_generation, out_of_bounds };

/// Where decisions wait for the window boundary. The worker actor offers, the training thread looks and applies.
/// It keeps the newest two: peers that have not received the newest yet can then still agree on the one before
/// (`agree` in agreement.hpp). A decision is applied at most once, and never one that is older than the last applied,
/// over all generations of a process. At any time received = applied + superseded + unapplied + held.
class decision_slot {
public:
  decision_slot(std::uint32_t rank, std::uint32_t lowest_batch, std::uint32_t highest_batch);

  /// From here on decisions of `generation` are taken, and those of others refused; before the first call, all are.
  /// What is held of the generation before stays unapplied. Does nothing where the slot is in `generation` already.
  void enter_generation(std::uint64_t generation);

  offer_verdict offer(const messages::decision& decision);
  /// Newest first; key {0, 0} where there is none.
  std::array<messages::decision, 2> held() const;
  /// The workers agreed on `decision`, taken from `held()`, and it holds from `step` on. Counts it as applied (late if
  /// `step` is behind its first step) and forgets it and everything older. It may have been displaced or dropped since
  /// it was taken.
  void applied(const messages::decision& decision, std::uint64_t step);
  /// Training has ended: what is held, and whatever is still offered, stays unapplied.
  messages::decision_counts close();
  messages::decision_counts counts() const;
  messages::decision_key newest() const;

private:
  void drop_held();

  mutable std::mutex mutex_;
  std::uint64_t generation_ = 0;
  std::uint32_t rank_;
  std::uint32_t lowest_batch_;
  std::uint32_t highest_batch_;
  std::array<messages::decision, 2> held_{};
  messages::decision_key newest_{};
  messages::decision_key last_applied_{};
  std::array<messages::decision_key, 2> dropped_{}; ///< with the generation before
  messages::decision_counts counts_{};
  bool closed_ = false;
};

} // namespace dynamix::session
