#pragma once

/// What the scheduler programs count, shared with user space. User space maps it into its memory and reads it there.

#include "bpf/cost.h"

#include <linux/types.h>

enum { scheduler_slots = 1024 }; ///< a CPU beyond is not counted

/// What a thread does, as far as the scheduler knows.
enum thread_activity {
  thread_unseen,
  thread_running,
  thread_waiting,  ///< for a CPU
  thread_sleeping, ///< for a peer, a message, a timer
  thread_stalled,  ///< in uninterruptible sleep: for a disk, a page, a lock of the kernel
  thread_activities
};

/// Of one CPU, all threads of the process. Only rising counts.
struct scheduler_slot {
  struct program_cost cost;
  __u64 activity_ns[thread_activities];
  __u64 involuntary_switches;
} __attribute__((aligned(128)));

/// Of the training thread: of another process that is followed, its main one. `changes` is odd while it is being
/// written.
struct training_clock {
  __u64 changes;
  __u64 activity_ns[thread_activities];
  __u64 since_ns; ///< of the present activity, on the scheduler's clock; its time is not in activity_ns yet
  __s64 ahead_ns; ///< by which CLOCK_MONOTONIC is ahead of the scheduler's
  __u32 activity;
  __s32 process; ///< whose thread it is, as user space names it: `wanted`
};
