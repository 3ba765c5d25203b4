#include "telemetry/cgroup_limits.hpp"

#include "telemetry/small_file.hpp"

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

namespace dynamix::telemetry {
namespace {

namespace fs = std::filesystem;

constexpr double no_memory_limit = 1e18; ///< version 1 has a number that no machine has

/// Nothing that is a number: 0, as where there is no such file, or "max" in it.
double number_in(std::istream& text) {
  double number = 0;
  return text >> number && number > 0 ? number : 0;
}

double cores_of(const fs::path& group) {
  std::ifstream both(group / "cpu.max");
  if (const double quota = number_in(both); quota > 0)
    return quota / number_in(both);
  std::ifstream quota(group / "cpu.cfs_quota_us");
  std::ifstream period(group / "cpu.cfs_period_us");
  const double share = number_in(quota);
  return share > 0 ? share / number_in(period) : 0;
}

double memory_of(const fs::path& group) {
  for (const auto* name : {"memory.max", "memory.limit_in_bytes"}) {
    std::ifstream file(group / name);
    if (const double bytes = number_in(file); bytes > 0 && bytes < no_memory_limit)
      return bytes;
  }
  return 0;
}

/// And the group that has it.
std::pair<double, std::string> lowest(const std::string& group, double (*limit_of)(const fs::path&)) {
  std::pair<double, std::string> lowest;
  for (fs::path at = group; at.has_relative_path(); at = at.parent_path())
    if (const double limit = limit_of(at); limit > 0 && (lowest.first == 0 || limit < lowest.first))
      lowest = {limit, at.string()};
  return lowest;
}

} // namespace

cgroup_limits read_limits(const cgroup_places& places) {
  auto [cores, group] = lowest(places.cpu, cores_of);
  return {.cores = cores,
          .memory_bytes = static_cast<std::uint64_t>(lowest(places.memory, memory_of).first),
          .cores_group = std::move(group)};
}

double stopped_seconds(const char* cpu_stat) {
  std::uint64_t time = 0;
  if (find_number(cpu_stat, "throttled_usec ", time))
    return 1e-6 * static_cast<double>(time);
  return find_number(cpu_stat, "throttled_time ", time) ? 1e-9 * static_cast<double>(time) : 0;
}

} // namespace dynamix::telemetry
