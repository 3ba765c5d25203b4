#include "node/launch/shipped_files.hpp"

#include "node/launch/child_process.hpp"

#include <filesystem>

namespace dynamix::node {

std::string find_shipped(std::string_view name) {
  std::error_code ignored;
  for (auto above = std::filesystem::path(own_program()).parent_path(); !above.empty(); above = above.parent_path()) {
    for (const auto* below : {"share/dynamix", "deployments"})
      if (const auto path = above / below / name; std::filesystem::exists(path, ignored))
        return path.string();
    if (above == above.root_path())
      break;
  }
  return "";
}

bool is_shipped(const std::string& path, std::string_view name) {
  std::error_code failed;
  return std::filesystem::equivalent(path, find_shipped(name), failed) && !failed;
}

} // namespace dynamix::node
