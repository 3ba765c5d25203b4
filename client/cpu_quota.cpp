#include "client/cpu_quota.hpp"

#include "telemetry/cgroup_limits.hpp"

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <utility>

namespace dynamix::client {
namespace {

constexpr double looked_for_seconds = 2;

double own_cpu_seconds() {
  ::timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

} // namespace

double paced_seconds(double compute_seconds, const quota_use& before, const quota_use& now) {
  const double used = now.cpu_seconds - before.cpu_seconds;
  if (!(compute_seconds > 0) || !(now.cores > 0) || now.cores != before.cores || !(used > 0))
    return compute_seconds;
  return std::max(used / now.cores, compute_seconds - (now.stopped_seconds - before.stopped_seconds));
}

void cpu_quota::find(double now_seconds) {
  found_seconds_ = now_seconds;
  const auto limits = telemetry::read_limits(telemetry::find_cgroups(telemetry::read_small_file(proc_ + "/cgroup"),
                                                                     telemetry::read_small_file(proc_ + "/mountinfo")));
  if (limits.cores == cores_ && limits.cores_group == group_)
    return;
  cores_ = limits.cores;
  group_ = limits.cores_group;
  statistics_ = cores_ > 0 ? telemetry::kept_file(AT_FDCWD, (group_ + "/cpu.stat").c_str()) : telemetry::kept_file();
  before_.reset();
}

quota_use cpu_quota::look() const {
  char text[1024];
  if (!statistics_.read_start(text, sizeof(text)))
    return {};
  const auto find = [&](const char* name, double unit) {
    std::uint64_t number = 0;
    return telemetry::find_number(text, name, number) ? unit * static_cast<double>(number) : 0;
  };
  const double used = find("usage_usec ", 1e-6); // version 1 counts a group's time in another hierarchy
  return {.cores = cores_,
          .cpu_seconds = used > 0 ? used : own_cpu_seconds(),
          .stopped_seconds = find("throttled_usec ", 1e-6) + find("throttled_time ", 1e-9)};
}

double cpu_quota::step_seconds(double compute_seconds, double now_seconds) {
  if (!found_seconds_ || now_seconds - *found_seconds_ >= looked_for_seconds)
    find(now_seconds);
  if (!(cores_ > 0))
    return compute_seconds;
  const auto now = look();
  const auto before = std::exchange(before_, now);
  return before ? paced_seconds(compute_seconds, *before, now) : compute_seconds;
}

} // namespace dynamix::client
