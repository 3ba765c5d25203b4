#include "node/machine_name.hpp"

#include <filesystem>
#include <fstream>

namespace dynamix::node {
namespace {

/// The value of the first line "KEY : VALUE" of a file of /proc; empty without one.
std::string first_value(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(':');
    if (!line.starts_with(key) || colon == std::string::npos)
      continue;
    const auto begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return {};
}

} // namespace

std::string machine_name(bool cuda) {
  std::string name;
  std::error_code none;
  if (cuda)
    for (const auto& device : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", none))
      if (name.empty())
        name = first_value(device.path() / "information", "Model");
  if (!cuda)
    name = first_value("/proc/cpuinfo", "model name");
  return name.empty() ? "unknown processor" : name;
}

} // namespace dynamix::node
