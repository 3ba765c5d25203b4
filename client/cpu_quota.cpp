#include "client/cpu_quota.hpp"

#include "client/core_demand.hpp"
#include "telemetry/cgroup_limits.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace dynamix::client {
namespace {

constexpr double looked_for_seconds = 2;

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
  std::uint64_t used_us = 0; // version 1 counts a group's time in another hierarchy
  const bool counts = telemetry::find_number(text, "usage_usec ", used_us);
  return {.cores = cores_,
          .cpu_seconds = counts ? 1e-6 * static_cast<double>(used_us) : used_seconds(),
          .stopped_seconds = telemetry::stopped_seconds(text)};
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
