#include "links/private_file.hpp"

#include "storage/atomic_file.hpp"

#include <cerrno>
#include <filesystem>
#include <fmt/core.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace dynamix::links {
namespace {

constexpr std::size_t file_bytes_max = 65536;
constexpr ::mode_t by_others = 0077;

} // namespace

std::string make_private_directory(const std::string& path) {
  std::error_code error;
  const auto above = std::filesystem::path(path).parent_path();
  if (!above.empty() && !std::filesystem::exists(above, error))
    if (auto problem = make_private_directory(above.string()); !problem.empty())
      return problem;
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return storage::failure("make", path);
  return std::filesystem::is_directory(path, error) ? "" : path + " is not a directory";
}

std::string write_private_file(const std::string& path, const std::string& text) {
  return storage::write_private_file(path, {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
}

std::string read_private_file(const std::string& path, std::string& text) {
  struct ::stat status {};
  if (::stat(path.c_str(), &status) != 0)
    return storage::failure("read", path);
  if ((status.st_mode & by_others) != 0)
    return fmt::format("{} may be read or written by others than its owner (mode {:04o}); run chmod 600 {}", path,
                       status.st_mode & 07777, path);
  if (status.st_uid != ::geteuid() && status.st_uid != 0)
    return fmt::format("{} belongs to another user (id {}) than this process's (id {})", path, status.st_uid,
                       ::geteuid());
  return storage::read_file(path, file_bytes_max, text);
}

void drop_line_ends(std::string& secret) {
  secret.erase(secret.find_last_not_of("\r\n") + 1);
}

std::string read_secret_file(const std::string& path, std::string& secret) {
  auto problem = read_private_file(path, secret);
  drop_line_ends(secret);
  return problem;
}

} // namespace dynamix::links
