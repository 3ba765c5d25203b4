#pragma once

/// What unequal batch sizes are worth: the samples per second of a run over those that its hosts would reach with equal
/// batches, and why, in sentences. An estimate: a worker that has run an equal batch takes what it took then; one that
/// has not is as many times slower than the fastest that has as at the nearest batch that it has run. Pure.

#include "ledger/rows.hpp"
#include "policy/step_time_table.hpp"

#include <cstdint>
#include <limits>
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
  struct step_mean {
    double seconds = 0;
    double windows = 0;
  };
  struct measured_host {
    policy::step_time_table table;
    std::map<int, step_mean> seen; ///< computing times by eighths of log2(batch), whatever the pace was
    std::uint32_t lowest = std::numeric_limits<std::uint32_t>::max();
    std::uint32_t highest = 0;

    void measure(const messages::window_report& report);
    bool has_run(double batch) const { return batch >= 0.9 * lowest && batch <= 1.1 * highest; }
    double seconds(double batch) const { return table.curve().seconds(batch); }
    /// The same, and no more than what such a batch has taken. Where a host shares its cores, it is slower beside busy
    /// neighbours than beside those that wait for it, as they do at equal batches.
    double cautious_seconds(double batch) const;
  };
  const measured_host* find(const std::string& name) const;
  const measured_host* reference(const ledger::window& window, double batch) const;
  batch_gain compare(const ledger::window& window) const;

  std::map<std::string, measured_host> hosts_;
  std::string policy_;
  double exchange_seconds_ = -1; ///< of a step in which nobody computes, moving mean; negative: not measured
  batch_gain newest_;
};

/// "1.5 times the samples per second of equal batches (estimated)"; empty: not known.
std::string headline(const batch_gain& gain);
/// "dot computes 4.0 times slower than ada, and gets 8 of 243 samples; the global batch is 243 because the gradient
/// noise scale is 260"; empty: not known.
std::string because(const batch_gain& gain);

} // namespace dynamix::ledger
