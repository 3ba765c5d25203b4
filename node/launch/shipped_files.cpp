#include "node/launch/shipped_files.hpp"

#include "messages/types.hpp"
#include "node/launch/child_process.hpp"
#include "policy/controller.hpp"
#include "storage/atomic_file.hpp"

#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <sys/stat.h>
#include <vector>

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

std::string find_default_parameters(const cluster::cluster_file& file) {
  if (file.arbitrator.policy != cluster::policy_kind::ppo || file.gives("arbitrator.policy_file"))
    return "";
  auto path = find_shipped("policies/ppo.dynamix");
  std::string contents;
  if (path.empty() || !storage::read_file(path, messages::max_policy_bytes, contents).empty())
    return "";
  try {
    policy::make_controller(file, std::vector<std::uint8_t>(contents.begin(), contents.end()));
  } catch (const std::invalid_argument&) {
    return ""; // of other votes or another network
  }
  return path;
}

} // namespace dynamix::node
