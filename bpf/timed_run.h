#pragma once

/// Timing of runs, for the programs.

#include "bpf/cost.h"
#include "bpf/kernel_types.h"

/// The beginning of a run that is timed, on a clock that is ahead by what reading it takes; 0: this one is not.
static __always_inline __u64 begin_run(struct program_cost* cost) {
  __u64 run = cost->runs;
  cost->runs = run + 1; // a run that interrupts this one may go uncounted
  if (run % timed_interval != 0)
    return 0;
  // A virtual machine's clock may take longer to read than a run to do.
  __u64 before_ns = bpf_ktime_get_ns();
  __u64 began_ns = bpf_ktime_get_ns();
  return began_ns + (began_ns - before_ns);
}

static __always_inline void end_run(struct program_cost* cost, __u64 began_ns) {
  if (began_ns == 0)
    return;
  __u64 ended_ns = bpf_ktime_get_ns();
  cost->timed_ns += ended_ns > began_ns ? ended_ns - began_ns : 0;
  cost->timed_runs += 1;
}
