#include "client/core_demand.hpp"

#include "client/cores.hpp"
#include "storage/fnv1a.hpp"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <limits>

namespace dynamix::client {
namespace {

constexpr std::uint32_t measured_steps = 8;
constexpr double measured_seconds = 0.05; // a scheduler's slice has some milliseconds
constexpr std::uint64_t threads_max = 4096;

/// 0: the machine has no name, so nothing is known of who else is on it.
std::uint32_t set_of(const std::vector<std::uint32_t>& cpus) {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  if (boot.empty())
    return 0;
  storage::fnv1a hash;
  hash.add(boot);
  for (const auto cpu : cpus)
    hash.add_number(cpu);
  return std::max(static_cast<std::uint32_t>(hash.value() ^ hash.value() >> 32U), 1U);
}

} // namespace

double used_seconds() {
  ::timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

double demanded_seconds(const std::string& proc) {
  double waited_nanoseconds = 0;
  std::uint64_t threads = 0;
  std::error_code none;
  for (const auto& thread : std::filesystem::directory_iterator(proc + "/self/task", none)) {
    double ran = 0;
    double waited = 0;
    if (++threads <= threads_max && std::ifstream(thread.path() / "schedstat") >> ran >> waited)
      waited_nanoseconds += waited;
  }
  return used_seconds() + 1e-9 * waited_nanoseconds;
}

void core_demand::step_ended(double now_seconds) {
  if (use_.cpus > 0)
    return;
  if (steps_++ == 0) {
    begin_seconds_ = now_seconds;
    demanded_before_ = demanded_seconds();
    return;
  }
  const double passed = now_seconds - begin_seconds_;
  if (steps_ <= measured_steps || !(passed >= measured_seconds))
    return;
  const auto cpus = allowed_cpus();
  const double busy = std::max(demanded_seconds() - demanded_before_, 0.0) / passed;
  constexpr double most = std::numeric_limits<std::uint16_t>::max();
  use_ = {.set = set_of(cpus),
          .cpus = static_cast<std::uint16_t>(std::clamp<std::size_t>(cpus.size(), 1, 4096)),
          .demand_percent = static_cast<std::uint16_t>(std::min(std::round(100 * busy), most))};
}

} // namespace dynamix::client
