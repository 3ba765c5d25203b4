#include "telemetry/privileges.hpp"

#include "telemetry/numbered_entries.hpp"
#include "telemetry/small_file.hpp"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace dynamix::telemetry {
namespace {

// In linux/capability.h since Linux 5.8.
constexpr unsigned net_admin = 12;
constexpr unsigned sys_admin = 21;
constexpr unsigned perfmon = 38;
constexpr unsigned bpf = 39;

struct capability_sets {
  __user_cap_data_struct halves[2] = {};
};

bool read_sets(int thread, capability_sets& sets) {
  __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = thread};
  return ::syscall(SYS_capget, &header, sets.halves) == 0;
}

bool holds(std::uint32_t (&words)[2], unsigned capability) {
  return (words[capability / 32] & (1U << capability % 32)) != 0;
}

/// Of the calling thread only, as the kernel has it. Safe in a signal handler.
bool drop_own() {
  capability_sets sets;
  if (!read_sets(0, sets))
    return false;
  for (const unsigned dropped : {net_admin, sys_admin, perfmon, bpf}) {
    auto& half = sets.halves[dropped / 32];
    const std::uint32_t rest = ~(1U << dropped % 32);
    half.effective &= rest;
    half.permitted &= rest;
    half.inheritable &= rest; // the ambient set follows
  }
  __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  return ::syscall(SYS_capset, &header, sets.halves) == 0;
}

std::atomic<int> answered = 0;
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may touch nothing else");

void drop_in_handler(int) {
  const int error = errno;
  drop_own();
  answered.fetch_add(1);
  errno = error;
}

/// Threads that may still do what is to be dropped.
std::string privileged_threads() {
  std::string threads;
  for_each_numbered_entry("/proc/self/task", [&](int thread, int) {
    capability_sets sets;
    if (!read_sets(thread, sets))
      return;
    std::uint32_t permitted[2] = {sets.halves[0].permitted, sets.halves[1].permitted};
    for (const unsigned dropped : {net_admin, sys_admin, perfmon, bpf})
      if (holds(permitted, dropped)) {
        threads += (threads.empty() ? "" : ", ") + std::to_string(thread);
        return;
      }
  });
  return threads;
}

} // namespace

privileges own_privileges() {
  capability_sets sets;
  if (!read_sets(0, sets))
    return {};
  std::uint32_t effective[2] = {sets.halves[0].effective, sets.halves[1].effective};
  const bool all = holds(effective, sys_admin);
  return {.bpf = all || holds(effective, bpf),
          .perfmon = all || holds(effective, perfmon),
          .net_admin = holds(effective, net_admin)};
}

bool may_administer() {
  capability_sets sets;
  if (!read_sets(0, sets))
    return false;
  std::uint32_t effective[2] = {sets.halves[0].effective, sets.halves[1].effective};
  return holds(effective, sys_admin);
}

bool in_user_namespace() {
  unsigned long inside = 0;
  unsigned long outside = 0;
  unsigned long count = 0;
  const auto map = read_small_file("/proc/self/uid_map");
  return std::sscanf(map.c_str(), "%lu %lu %lu", &inside, &outside, &count) == 3 &&
         (inside != 0 || outside != 0 || count != UINT32_MAX);
}

std::string drop_privileges() {
  // The kernel keeps capabilities by thread, and libraries may have started some when the program was loaded.
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = &drop_in_handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGRTMAX, &action, &before);
  answered = 0;
  int asked = 0;
  for_each_numbered_entry("/proc/self/task", [&](int thread, int) {
    if (thread != ::gettid())
      asked += ::syscall(SYS_tgkill, ::getpid(), thread, SIGRTMAX) == 0 ? 1 : 0;
  });
  const bool own = drop_own();
  constexpr timespec pause = {0, 1'000'000};
  for (int waits = 0; answered < asked && waits < 1000; ++waits)
    ::nanosleep(&pause, nullptr);
  if (answered == asked) // one that answers late must not be ended by the signal
    sigaction(SIGRTMAX, &before, nullptr);
  if (!own)
    return "capset: " + std::string(std::strerror(errno));
  const auto threads = privileged_threads();
  return threads.empty() ? "" : "threads " + threads + " kept their capabilities";
}

} // namespace dynamix::telemetry
