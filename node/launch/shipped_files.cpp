#include "node/launch/shipped_files.hpp"

#include "node/launch/child_process.hpp"

#include <filesystem>
#include <sys/stat.h>

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
  const auto shipped = find_shipped(name);
  std::error_code failed;
  if (!std::filesystem::equivalent(path, shipped, failed) || failed)
    return false;
  // Directories above the program may be anybody's, as in /tmp.
  struct stat program = {};
  struct stat file = {};
  return ::stat(own_program().c_str(), &program) == 0 && ::stat(shipped.c_str(), &file) == 0 &&
         (file.st_uid == program.st_uid || file.st_uid == 0) && (file.st_mode & S_IWOTH) == 0;
}

} // namespace dynamix::node
