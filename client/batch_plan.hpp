#pragma once

#include "messages/types.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace dynamix::client {

/// The batch sizes of all members from one step on.
struct planned_batches {
  std::uint64_t from_step = 0;
  messages::decision_key key; ///< of the decision behind them; {0, 0}: none
  std::vector<std::uint32_t> batches;
  std::vector<std::uint32_t> limits; ///< the largest that members can hold

  std::uint64_t total() const;
};

/// Which batch sizes hold in which step. Members deal samples ahead of their training, each as far as its data loader
/// asks for, so batch sizes belong to steps, and those of a step that somebody has dealt never change.
class batch_plan {
public:
  /// From step 0 on.
  batch_plan(std::vector<std::uint32_t> batches, std::vector<std::uint32_t> limits, messages::decision_key key = {});

  const planned_batches& at(std::uint64_t step) const;
  const planned_batches& newest() const { return entries_.back(); }
  /// Replaces what was planned from `next.from_step` on.
  void add(planned_batches next);
  /// Forgets what holds only in steps before `step`.
  void forget_before(std::uint64_t step);
  /// By rising step; at least one.
  std::span<const planned_batches> entries() const { return entries_; }

private:
  std::vector<planned_batches> entries_;
};

} // namespace dynamix::client
