#pragma once

/// Timing of runs, for the programs.

#include "bpf/cost.h"
#include "bpf/kernel_types.h"

/// When a run that is timed began; 0: this one is not.
static __always_inline __u64 begin_run(struct program_cost* cost) {
  __u64 run = cost->runs;
  cost->runs = run + 1; // a run that interrupts this one may go uncounted
  return run % timed_interval == 0 ? bpf_ktime_get_ns() : 0;
}

static __always_inline void end_run(struct program_cost* cost, __u64 began_ns) {
  if (began_ns == 0)
    return;
  cost->timed_ns += bpf_ktime_get_ns() - began_ns;
  cost->timed_runs += 1;
}
