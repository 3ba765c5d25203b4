#pragma once

#include <charconv>
#include <cstring>
#include <dirent.h>
#include <memory>

namespace dynamix::telemetry {

/// At most so many sockets or threads of a process are looked at.
inline constexpr int entries_max = 4096;

/// Calls `visit(number, directory descriptor)` for the entries of `path` that are numbers, as in /proc/self/fd and
/// /proc/self/task, up to `entries_max`. False when the directory cannot be read.
template <class Visit>
bool for_each_numbered_entry(const char* path, Visit visit) {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(path), [](DIR* open) { return closedir(open); });
  if (!directory)
    return false;
  int visited = 0;
  while (const dirent* entry = readdir(directory.get())) {
    int number = 0;
    const char* end = entry->d_name + std::strlen(entry->d_name);
    const auto [stopped, error] = std::from_chars(entry->d_name, end, number);
    if (error != std::errc() || stopped != end)
      continue;
    if (++visited > entries_max)
      break;
    visit(number, dirfd(directory.get()));
  }
  return true;
}

} // namespace dynamix::telemetry
