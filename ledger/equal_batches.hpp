#pragma once

/// What unequal batch sizes are worth: the samples per second of a run over those that its hosts would reach with equal
/// batches, estimated from each worker's measured step times; and why, in sentences. Pure.

#include "ledger/rows.hpp"
#include "policy/step_time_table.hpp"

#include <cstdint>
#include <map>
#include <string>

namespace dynamix::ledger {

/// As of a window. Two workers or more, all of them measured.
struct batch_gain {
  double gain = 0;         ///< samples per second over those of equal batches with the same global batch; 0: not known
  std::uint64_t total = 0; ///< samples per step, as decided on the window
  std::string slowest;     ///< the worker that would compute longest for an equal batch
  std::string fastest;
  double times_slower = 1; ///< the slowest over the fastest at equal batches
  std::uint32_t slowest_batch = 0;
  double noise_scale = -1;    ///< samples; negative: not measured
  bool follows_noise = false; ///< the policy chooses the global batch by the noise scale
};

class equal_batches {
public:
  /// The arbitrator's newest life decides by `policy`.
  void begin(const ledger::start& start) { policy_ = start.policy; }
  void add(const ledger::window& window);
  const batch_gain& newest() const { return newest_; }

private:
  static constexpr std::size_t workers_max = 4096; ///< whose step times are kept
  std::map<std::string, policy::step_time_table> tables_;
  std::string policy_;
  double exchange_seconds_ = -1; ///< of a step in which nobody computes, moving mean; negative: not measured
  batch_gain newest_;
};

/// "1.5 times the samples per second of equal batches (estimated)"; empty: not known.
std::string headline(const batch_gain& gain);
/// "dot computes 4.0 times slower than ada, so it gets 8 of 243 samples; the global batch is 243 because the gradient
/// noise scale is 260"; empty: not known.
std::string because(const batch_gain& gain);

} // namespace dynamix::ledger
