/// Preloaded into a process whose wall clock is to jump: answers CLOCK_REALTIME, gettimeofday and time with the offset
/// of the file that DYNAMIX_CLOCK_FILE names (wall_clock.hpp). Every other clock is the machine's.

#include "faults/wall_clock.hpp"

#include <atomic>
#include <cstdlib>
#include <ctime>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

namespace {

using dynamix::faults::clock_page;

constexpr std::int64_t second_ns = 1'000'000'000;

clock_page* map_page() {
  const char* path = std::getenv("DYNAMIX_CLOCK_FILE");
  const int descriptor = path == nullptr ? -1 : ::open(path, O_RDWR | O_CLOEXEC);
  if (descriptor < 0)
    return nullptr;
  void* mapped = ::mmap(nullptr, sizeof(clock_page), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  ::close(descriptor);
  return mapped == MAP_FAILED ? nullptr : static_cast<clock_page*>(mapped);
}

std::int64_t offset_ns() {
  static clock_page* const page = map_page();
  if (page == nullptr)
    return 0;
  const auto offset = std::atomic_ref(page->offset_ns).load(std::memory_order_relaxed);
  if (offset != 0)
    std::atomic_ref(page->shifted_reads).fetch_add(1, std::memory_order_relaxed);
  return offset;
}

/// The machine's answer: the system call, for the library's own function is the one that is replaced here.
std::int64_t real_ns() {
  timespec now{};
  ::syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
  return now.tv_sec * second_ns + now.tv_nsec;
}

} // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* into) noexcept {
  if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)
    return static_cast<int>(::syscall(SYS_clock_gettime, clock, into));
  const auto now = real_ns() + offset_ns();
  *into = {.tv_sec = now / second_ns, .tv_nsec = now % second_ns};
  return 0;
}

extern "C" int gettimeofday(timeval* into, void*) noexcept {
  const auto now = real_ns() + offset_ns();
  *into = {.tv_sec = now / second_ns, .tv_usec = now % second_ns / 1000};
  return 0;
}

extern "C" time_t time(time_t* into) noexcept {
  const auto now = (real_ns() + offset_ns()) / second_ns;
  if (into != nullptr)
    *into = now;
  return now;
}
