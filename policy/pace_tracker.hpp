#pragma once

/// What one worker knows of its own speed, from step to step. Pure, without Torch; a training process can have one too.

#include "policy/step_time_table.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dynamix::policy {

/// One worker's step time near its batch size, as a line: what it tells the others.
struct pace_estimate {
  double fixed_seconds = 0;  ///< of the line; not of a batch of 0
  double sample_seconds = 0; ///< for a sample more, > 0; 0: not measured
  double error = 0;          ///< standard error of what the line says, relative

  bool measured() const { return sample_seconds > 0; }
};
/// The same; one that is not measured where the numbers cannot be a step's.
pace_estimate checked(const pace_estimate& told);

/// Learns the shape of t(b) and a pace that scales it. Between two changes of speed the pace is the mean of what was
/// measured since the first, so noise falls with the root of the steps. A change is found by Page's CUSUM ("Continuous
/// inspection schemes", Biometrika 1954) on the logarithm of measured over expected seconds, in standard deviations
/// that are measured too: a large change at the second step, a small one after some. One step alone, however long (a
/// checkpoint, an evaluation), is bounded evidence and no change. By Siegmund's approximation
/// ("Sequential Analysis", 1985) steady noise looks like a change once in 400,000 steps, or in two hours of steps below
/// 20 ms.
class pace_tracker {
public:
  /// A step with this batch size computed for so many seconds. Ignored unless both are finite and > 0.
  void measure(double batch, double seconds);
  bool measured() const { return !curve_.empty(); }
  /// Expected seconds of a step; not before anything was measured.
  double seconds(double batch) const;
  /// Logarithm of how long steps take now over how long they took at first.
  double pace() const { return pace_; }
  /// The line that t(b) follows near `batch`; not measured before a few steps were.
  pace_estimate estimate(double batch) const;
  /// Changes of speed that were found.
  std::uint64_t changes() const { return changes_; }
  /// Times as long as before that a step took after the newest of them; 1 before the first.
  double newest_change() const { return newest_change_; }

private:
  struct point {
    double batch = 0;
    double log_seconds = 0; ///< at pace 0
    double weight = 0;
  };
  /// One side of the CUSUM: what speaks for a change, and since when.
  struct suspicion {
    double evidence = 0;
    double ratio_sum = 0; ///< logarithms of measured over the curve's seconds, as far as they count
    std::uint32_t steps = 0;

    bool add(double deviations, double ratio, double enough);
  };
  point* find(double batch);
  double possible(double batch, double log_seconds) const;
  void fit();
  void spread(double ratio);

  std::vector<point> points_; ///< rising in batch
  step_time_curve curve_;     ///< at pace 0
  double pace_ = 0;           ///< logarithm
  std::uint32_t paced_steps_ = 0;
  double variance_ = 0; ///< of the logarithm
  std::uint32_t varied_steps_ = 0;
  std::uint32_t measured_steps_ = 0;
  double spread_ = 0.1 * 0.1; ///< variance of the logarithm, as other workers are told
  double ratio_before_ = 0;
  std::uint32_t spread_steps_ = 0;
  suspicion slower_;
  suspicion faster_;
  double outlier_before_ = 0; ///< standard deviations of the step before, if as many as count or more; else 0
  std::uint64_t changes_ = 0;
  double newest_change_ = 1;
};

} // namespace dynamix::policy
