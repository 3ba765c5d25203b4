#include "node/scenario_files.hpp"

#include "node/command.hpp"

#include <algorithm>
#include <filesystem>

namespace dynamix::node {
namespace {

/// Empty when the directory cannot be read.
std::vector<std::string> cluster_files_in(const std::string& directory) {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error))
    if (entry.path().extension() == ".toml")
      found.push_back(entry.path().string());
  std::ranges::sort(found);
  return found;
}

} // namespace

int load_cluster_files(const std::vector<std::string>& paths, const std::vector<cluster::field_change>& changes,
                       std::vector<cluster::cluster_file>& files, std::ostream& err) {
  std::vector<std::string> found;
  for (const auto& path : paths) {
    if (!std::filesystem::is_directory(path)) {
      found.push_back(path);
      continue;
    }
    const auto below = cluster_files_in(path);
    if (below.empty())
      return refuse(err, path + " holds no cluster file (*.toml)");
    found.insert(found.end(), below.begin(), below.end());
  }
  int code = exit_done;
  for (const auto& path : found) {
    auto file = load_cluster_file(path, err);
    if (!file) {
      code = exit_refused;
      continue;
    }
    if (!change_cluster_file(*file, changes, err))
      return exit_refused; // the same for the others
    files.push_back(std::move(*file));
  }
  return code;
}

int load_scenarios(const std::vector<std::string>& paths, const std::vector<cluster::field_change>& changes,
                   std::vector<simulator::scenario>& scenarios, std::ostream& err) {
  std::vector<cluster::cluster_file> files;
  int code = load_cluster_files(paths, changes, files, err);
  for (const auto& file : files)
    for (const auto& error : simulator::load_scenario(file, scenarios.emplace_back()))
      code = refuse_at(err, error);
  return code;
}

} // namespace dynamix::node
