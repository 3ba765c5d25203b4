#include "node/launch/run_lock.hpp"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <map>
#include <sys/file.h>
#include <thread>
#include <unistd.h>

namespace dynamix::node {
namespace {

constexpr std::chrono::milliseconds lock_look_interval{50};

constexpr auto lock_suffix = ".lock";

std::string whole_lock(const run_directory& run) {
  return run.path() + "/run" + lock_suffix;
}

std::string key_of(const std::string& path) {
  return std::filesystem::absolute(path).lexically_normal().string();
}

/// By this process, with their descriptors. Not thread-safe, as all that follows.
std::map<std::string, int>& held_files() {
  static std::map<std::string, int> files;
  return files;
}

/// Of the process that holds it, by its own word.
std::string holder_of(int file) {
  char text[24] = "";
  const auto size = ::pread(file, text, sizeof text - 1, 0);
  const std::string_view digits(text, size > 0 ? static_cast<std::size_t>(size) : 0);
  return digits.empty() || digits.find_first_not_of("0123456789") != std::string_view::npos
             ? "another process"
             : fmt::format("process {}", digits);
}

} // namespace

std::string lock_run(const run_directory& run, const std::string& host, std::chrono::milliseconds patience,
                     const std::stop_token& stop) {
  const auto path = key_of(host.empty() ? whole_lock(run) : run.log(host) + lock_suffix);
  if (held_files().contains(path))
    return "";
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0)
    return ""; // what is to be written there says it better
  const auto begin = std::chrono::steady_clock::now();
  while (::flock(file, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) {
      ::close(file);
      return "";
    }
    if (std::chrono::steady_clock::now() - begin >= patience || stop.stop_requested()) {
      const auto problem = fmt::format("{} runs {} in {} already; wait for its end, or stop it", holder_of(file),
                                       host.empty() ? "the hosts" : "host " + host, run.path());
      ::close(file);
      return problem;
    }
    std::this_thread::sleep_for(lock_look_interval);
  }
  const auto id = std::to_string(::getpid());
  if (::ftruncate(file, 0) == 0) [[maybe_unused]]
    const auto written = ::pwrite(file, id.data(), id.size(), 0);
  held_files().emplace(path, file);
  return "";
}

void unlock_run(const run_directory& run) {
  const auto held = held_files().find(key_of(whole_lock(run)));
  if (held == held_files().end())
    return;
  ::close(held->second);
  held_files().erase(held);
}

bool is_running(const run_directory& run) {
  const auto is_held = [](const std::string& path) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    const bool held = file >= 0 && ::flock(file, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (file >= 0)
      ::close(file);
    return held;
  };
  if (is_held(whole_lock(run)))
    return true;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(run.path() + "/logs", error), end; !error && entry != end;
       entry.increment(error))
    if (entry->path().extension() == lock_suffix && is_held(entry->path().string()))
      return true;
  return false;
}

} // namespace dynamix::node
