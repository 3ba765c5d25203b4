// Splits the time of one process's threads into running, waiting for a CPU, sleeping and stalled: of the process that
// loads it, or of another one that it names later. Needs CAP_BPF and CAP_PERFMON.

#include "bpf/scheduler.h"

#include "bpf/kernel_types.h"
#include "bpf/timed_run.h"

struct scheduler_slot slots[scheduler_slots] = {};
struct training_clock training = {};
int process = 0;         ///< its number in the first namespace
int training_thread = 0; ///< its number in its own namespace
int wanted = 0;          ///< another process, by its number in the namespace of who names it; 0: none
int found = 0;           ///< the one of those that `process` is
__u32 namers_level = 0;  ///< of that namespace
__u64 namers_namespace = 0;

struct thread_clock {
  __u64 since_ns;
  __u32 activity;
  int number; ///< in its own namespace
};

struct {
  __uint(type, BPF_MAP_TYPE_TASK_STORAGE);
  __uint(map_flags, BPF_F_NO_PREALLOC);
  __type(key, int);
  __type(value, struct thread_clock);
} threads SEC(".maps");

/// A process that has been named is found when one of its threads gets a CPU or leaves it. User space writes `wanted`
/// alone, and this the rest, so that neither can undo the other's.
static __always_inline void look_for(struct task_struct* thread) {
  int number = wanted;
  if (number == found || process_number_of(thread, namers_level, namers_namespace) != number)
    return;
  process = thread->tgid;
  found = number;
}

static __always_inline struct thread_clock* clock_of(struct task_struct* thread) {
  return bpf_task_storage_get(&threads, thread, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
}

/// Ends the thread's activity and begins another one.
static __always_inline void begin_activity(struct task_struct* thread, struct thread_clock* clock, __u32 activity,
                                           __u64 now_ns, struct scheduler_slot* slot) {
  if (!clock)
    return;
  if (clock->number == 0)
    clock->number = own_number_of(thread);
  __u32 before = clock->activity < thread_activities ? clock->activity : 0;
  // Clocks of two CPUs may differ a little.
  __u64 passed_ns = clock->since_ns && now_ns > clock->since_ns ? now_ns - clock->since_ns : 0;
  clock->since_ns = now_ns;
  clock->activity = activity;
  slot->activity_ns[before] += passed_ns;
  bool trains = found ? thread->pid == thread->tgid : clock->number == training_thread;
  if (!trains)
    return;
  ++training.changes;
  barrier();
  training.process = found;
  training.activity_ns[before] += passed_ns;
  training.since_ns = now_ns;
  training.activity = activity;
  barrier();
  ++training.changes;
}

/// Null for a CPU that has none.
static __always_inline struct scheduler_slot* own_slot(void) {
  __u32 cpu = bpf_get_smp_processor_id();
  return cpu < scheduler_slots ? &slots[cpu] : 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(switched, bool preempted, struct task_struct* before, struct task_struct* after) {
  struct scheduler_slot* slot = own_slot();
  if (!slot)
    return 0;
  __u64 began_ns = begin_run(&slot->cost);
  look_for(before);
  look_for(after);
  bool leaves = before->tgid == process;
  bool comes = after->tgid == process;
  if (leaves || comes) {
    __u64 now_ns = scheduler_ns(after);
    if (began_ns)
      training.ahead_ns = began_ns - now_ns;
    if (leaves) {
      unsigned int state = state_of(before);
      bool involuntary = preempted || state == TASK_RUNNING;
      bool stalled = (state & (TASK_UNINTERRUPTIBLE | TASK_NOLOAD)) == TASK_UNINTERRUPTIBLE;
      slot->involuntary_switches += involuntary;
      begin_activity(before, clock_of(before),
                     involuntary ? thread_waiting
                     : stalled   ? thread_stalled
                                 : thread_sleeping,
                     now_ns, slot);
    }
    if (comes)
      begin_activity(after, clock_of(after), thread_running, now_ns, slot);
  }
  end_run(&slot->cost, began_ns);
  return 0;
}

static __always_inline int wake(struct task_struct* thread) {
  struct scheduler_slot* slot = own_slot();
  if (!slot)
    return 0;
  __u64 began_ns = begin_run(&slot->cost);
  if (thread->tgid == process) {
    struct thread_clock* clock = clock_of(thread);
    // One that was about to sleep may be woken while it still runs: no switch follows, it goes on.
    if (clock && clock->activity != thread_running)
      begin_activity(thread, clock, thread_waiting, scheduler_ns(thread), slot);
  }
  end_run(&slot->cost, began_ns);
  return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(woken, struct task_struct* thread) {
  return wake(thread);
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(born, struct task_struct* thread) {
  return wake(thread);
}

/// Run once by the process itself, which cannot know its number outside of its namespace.
SEC("raw_tp")
int introduce(void* context) {
  struct task_struct* self = bpf_get_current_task_btf();
  process = bpf_get_current_pid_tgid() >> 32;
  namers_level = level_of(self);
  namers_namespace = namespace_at(self, namers_level);
  training.ahead_ns = bpf_ktime_get_ns() - scheduler_ns(self);
  return 0;
}

char LICENSE[] SEC("license") = "GPL";
