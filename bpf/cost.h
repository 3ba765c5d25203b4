#pragma once

/// What running the programs costs, measured by themselves: one run of `timed_interval` is timed. Shared with user
/// space.

#include <linux/types.h>

enum { timed_interval = 64 };

/// Of one CPU.
struct program_cost {
  __u64 runs;
  __u64 timed_runs;
  __u64 timed_ns; ///< all timed runs together
};
