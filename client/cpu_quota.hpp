#pragma once

/// How long a step of a process takes whose control group has a quota of CPU time, as containers have it.

#include "telemetry/small_file.hpp"

#include <optional>
#include <string>

namespace dynamix::client {

/// What a group with a quota has used so far.
struct quota_use {
  double cores = 0;           ///< CPUs that it may keep busy, on average; 0: it has no quota
  double cpu_seconds = 0;     ///< of all its processes where the system tells, else of this one
  double stopped_seconds = 0; ///< for which it was stopped, since it had used its part of a period; of all its CPUs
};

/// How long a step takes that computed for `compute_seconds` by the clock between `before` and `now`, if training does
/// nothing else: the kernel (CFS bandwidth control) lets a group run at full speed until its part of a period is used,
/// and stops it then. So most steps look as fast as on a free host and a few many times as slow, and which ones are hit
/// depends on how long others were waited for. What counts is the CPU time of the step at the quota's pace, or its own
/// time without the stops, if that is longer. Without a quota, and where that is not known (not above 0), it is
/// `compute_seconds`. Pure.
double paced_seconds(double compute_seconds, const quota_use& before, const quota_use& now);

class cpu_quota {
public:
  /// `proc` and what mountinfo below it names are the system's, except in tests.
  explicit cpu_quota(std::string proc = "/proc/self") : proc_(std::move(proc)) {}

  /// A step has computed for so long, at `now_seconds` of any steady clock. Call it in each step: it returns what to
  /// take for its time. The group is looked for anew every two seconds, since limits are set while a process runs.
  double step_seconds(double compute_seconds, double now_seconds);
  /// What comes before the next step is no part of it: an evaluation, or the end of an epoch.
  void restart() { before_.reset(); }

private:
  void find(double now_seconds);
  quota_use look() const;

  std::string proc_;
  std::optional<double> found_seconds_;
  double cores_ = 0;
  std::string group_;
  telemetry::kept_file statistics_;
  std::optional<quota_use> before_;
};

} // namespace dynamix::client
