#pragma once

/// The few kernel types that the programs read, and what differs between kernels. Only names matter: libbpf looks each
/// field up in the BTF of the kernel that runs (CO-RE), so that building needs no BTF.

#include "bpf/cost.h" // has the integer types, which libbpf's headers take

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <linux/bpf.h>
#include <stdbool.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct upid {
  int nr;   ///< the number in one namespace
  void* ns; ///< which one. Here although only its address is read: an index into an array is not relocated
};

struct pid {
  unsigned int level;    ///< of the innermost namespace
  struct upid numbers[]; ///< by level
};

struct rq {
  __u64 clock; ///< nanoseconds, as the scheduler last read them
};

struct cfs_rq {
  struct rq* rq; ///< of its CPU
};

struct sched_entity {
  struct cfs_rq* cfs_rq; ///< CONFIG_FAIR_GROUP_SCHED
};

struct task_struct {
  struct sched_entity se;
  unsigned int __state;
  int pid;  ///< of the thread, in the first namespace
  int tgid; ///< of the process, likewise
  struct task_struct* group_leader;
  struct pid* thread_pid;
};

struct task_struct___before_5_14 {
  long state;
};

#pragma clang attribute pop

/// Bits of a task's state, from the kernel's include/linux/sched.h.
#define TASK_RUNNING 0x0
#define TASK_UNINTERRUPTIBLE 0x2
#define TASK_NOLOAD 0x400 ///< with the last one: idle, and not held up by anything

static __always_inline unsigned int state_of(struct task_struct* task) {
  if (bpf_core_field_exists(task->__state))
    return task->__state;
  return (unsigned int)BPF_CORE_READ((struct task_struct___before_5_14*)task, state);
}

/// When the scheduler began with what it does to `task`, on its own clock: it has just read it, and reading another
/// takes longer than all the rest of a run. The kernel's own count of waits (schedstat) uses it too.
static __always_inline __u64 scheduler_ns(struct task_struct* task) {
  if (bpf_core_field_exists(task->se.cfs_rq) && bpf_core_field_exists(((struct cfs_rq*)0)->rq))
    return task->se.cfs_rq->rq->clock;
  return bpf_ktime_get_ns();
}

enum { namespace_levels = 32 }; ///< MAX_PID_NS_LEVEL of the kernel; a power of 2

static __always_inline unsigned int level_of(struct task_struct* task) {
  return BPF_CORE_READ(task, thread_pid, level);
}

/// What the thread is called `level` namespaces below the first; no more than its own level.
static __always_inline struct upid name_at(struct task_struct* task, unsigned int level) {
  struct upid name = {};
  struct pid* number = BPF_CORE_READ(task, thread_pid);
  bpf_core_read(&name, sizeof(name), &number->numbers[level & (namespace_levels - 1)]);
  return name;
}

static __always_inline __u64 namespace_at(struct task_struct* task, unsigned int level) {
  return (__u64)name_at(task, level).ns;
}

/// The number by which the thread knows itself, in its own namespace.
static __always_inline int own_number_of(struct task_struct* task) {
  return name_at(task, level_of(task)).nr;
}

/// The number of the thread's process in a namespace, which is at `level`; 0 where it is not seen there.
static __always_inline int process_number_of(struct task_struct* thread, unsigned int level, __u64 seen_from) {
  struct task_struct* leader = BPF_CORE_READ(thread, group_leader);
  if (level_of(leader) < level)
    return 0;
  struct upid name = name_at(leader, level);
  return (__u64)name.ns == seen_from ? name.nr : 0;
}
