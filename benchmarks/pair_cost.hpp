#pragma once

/// What the benchmarks of links share: keys for as long as they run, the process's CPU time, medians.

#include "links/door.hpp"
#include "links/key_directory.hpp"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

namespace dynamix::benchmarks {

/// Keys for `hosts` in a directory of their own. Throws std::runtime_error where they cannot be made.
class passing_keys {
public:
  explicit passing_keys(std::vector<std::string> hosts)
      : directory_((std::filesystem::temp_directory_path() / "dynamix-links-XXXXXX").string()) {
    if (::mkdtemp(directory_.data()) == nullptr)
      throw std::runtime_error("no temporary directory");
    const auto problem = links::make_passing_keys(
        path(), {.cluster = "cost", .hosts = std::move(hosts), .now_seconds = std::time(nullptr)});
    if (!problem.empty())
      throw std::runtime_error(problem);
  }
  passing_keys(const passing_keys&) = delete;
  passing_keys& operator=(const passing_keys&) = delete;
  ~passing_keys() { std::filesystem::remove_all(directory_); }
  std::string path() const { return directory_ + "/keys"; }

private:
  std::string directory_;
};

/// The door of a host with such keys, at a port of loopback that is free. Throws std::runtime_error where there is
/// none.
inline std::unique_ptr<links::door> open_door(const std::string& keys, const std::string& host) {
  std::string problem;
  auto made = links::door::start({.directory = links::host_directory(keys, host), .host = host}, problem);
  if (made)
    problem = made->listen("127.0.0.1", 0);
  if (!problem.empty())
    throw std::runtime_error(problem);
  return made;
}

/// Of all threads.
inline double process_cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Of at least one value; the upper one of two in the middle.
inline double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.at(values.size() / 2);
}

} // namespace dynamix::benchmarks
