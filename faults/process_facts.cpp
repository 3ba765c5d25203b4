#include "faults/process_facts.hpp"

#include <filesystem>
#include <fmt/core.h>
#include <fstream>
#include <sstream>

namespace dynamix::faults {
namespace {

std::string file_of(pid_t id, const char* name) {
  return fmt::format("/proc/{}/{}", id, name);
}

/// The number behind `label` in a file of lines "label number".
std::uint64_t labelled(const std::string& path, const std::string& label) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(label)) {
      std::uint64_t number = 0;
      std::istringstream(line.substr(label.size())) >> number;
      return number;
    }
  return 0;
}

} // namespace

char state_of(pid_t id) {
  std::ifstream file(file_of(id, "stat"));
  std::string text;
  std::getline(file, text);
  const auto end = text.rfind(") "); // of the name, which may hold anything
  return end == std::string::npos || end + 2 >= text.size() ? '\0' : text[end + 2];
}

double memory_mib_of(pid_t id) {
  return static_cast<double>(labelled(file_of(id, "status"), "RssAnon:")) / 1024;
}

std::int64_t descriptors_of(pid_t id) {
  std::error_code error;
  std::filesystem::directory_iterator entries(file_of(id, "fd"), error);
  return error ? -1 : std::distance(entries, std::filesystem::directory_iterator());
}

std::uint64_t write_calls_of(pid_t id) {
  return labelled(file_of(id, "io"), "syscw:");
}

std::uint64_t bytes_written_below(pid_t id, const std::string& directory) {
  std::error_code error;
  const auto root = std::filesystem::weakly_canonical(directory, error).string() + "/";
  std::uint64_t bytes = 0;
  for (std::filesystem::directory_iterator each(file_of(id, "fd"), error), end; !error && each != end;
       each.increment(error)) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(each->path(), gone).string();
    if (!gone && target.starts_with(root))
      if (const auto size = std::filesystem::file_size(target, gone); !gone)
        bytes += size;
  }
  return bytes;
}

} // namespace dynamix::faults
