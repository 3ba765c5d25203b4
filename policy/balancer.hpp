#pragma once

/// A member's part in the shares between two decisions: it measures its own pace, keeps what the others have told of
/// theirs, and where nobody decides proposes a global batch. Pure.

#include "messages/types.hpp"
#include "policy/balance.hpp"
#include "policy/exchange_estimate.hpp"
#include "policy/pace_tracker.hpp"

#include <cstdint>
#include <optional>

namespace dynamix::policy {

class balancer {
public:
  /// This member has computed a step of so many samples.
  void measure(double samples, double compute_seconds);
  /// A step has ended for all, so long after the one before.
  void end_step(double step_seconds);
  pace_estimate estimate(double batch) const { return pace_.estimate(batch); }
  /// What all members have come to for the next step.
  void follow(const balanced_step& next);
  /// The global batch that makes the best use of the members' time from what is in force: a step of Newton's method on
  /// the logarithm of goodput, samples per second times how much each is worth beside the gradient's `noise_scale` (not
  /// above 0: not measured). At least `least`. 0: what is in force, or nearly.
  std::uint64_t propose(double noise_scale, std::uint64_t least) const;

  /// The next step has this batch here; `moved`: somebody's batch size has changed without a decision.
  void count(std::uint32_t batch, bool moved);
  /// Of the steps since the last call, for a window's report.
  messages::balance_statistics take_statistics(std::uint32_t batch);

private:
  pace_tracker pace_;
  exchange_estimate exchange_;
  /// What propose goes by, of a step that all have come to.
  struct common_step {
    double total = 0;
    double slowest_seconds = 0;
    double held_seconds = 0;
    double supply = 0;
    bool full = false;
  };
  common_step running_;
  common_step next_;
  messages::balance_statistics statistics_;
  std::optional<std::uint32_t> reported_batch_;
  std::uint64_t changes_before_ = 0;
  std::optional<double> pace_before_; ///< nothing before the first window that was measured
};

} // namespace dynamix::policy
