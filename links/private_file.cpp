#include "links/private_file.hpp"

#include "storage/atomic_file.hpp"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <fmt/core.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace dynamix::links {
namespace {

constexpr std::size_t file_bytes_max = 65536;
constexpr ::mode_t by_others = 0077;

std::string failure(const char* what, const std::string& path) {
  return fmt::format("cannot {} {}: {}", what, path, std::generic_category().message(errno));
}

bool write_whole(int file, const std::string& text) {
  std::size_t written = 0;
  while (written < text.size()) {
    const auto count = ::write(file, text.data() + written, text.size() - written);
    if (count < 0 && errno != EINTR)
      return false;
    written += count < 0 ? 0 : static_cast<std::size_t>(count);
  }
  return ::fsync(file) == 0;
}

} // namespace

std::string make_private_directory(const std::string& path) {
  std::error_code error;
  const auto above = std::filesystem::path(path).parent_path();
  if (!above.empty() && !std::filesystem::exists(above, error))
    if (auto problem = make_private_directory(above.string()); !problem.empty())
      return problem;
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return failure("make", path);
  return std::filesystem::is_directory(path, error) ? "" : path + " is not a directory";
}

std::string write_private_file(const std::string& path, const std::string& text) {
  std::string temporary = path + ".XXXXXX";
  const int file = ::mkostemp(temporary.data(), O_CLOEXEC); // with mode 0600
  if (file < 0)
    return failure("write", path);
  const bool written = write_whole(file, text);
  const bool closed = ::close(file) == 0;
  if (written && closed && ::rename(temporary.c_str(), path.c_str()) == 0)
    return "";
  auto problem = failure("write", path);
  ::unlink(temporary.c_str());
  return problem;
}

std::string read_private_file(const std::string& path, std::string& text) {
  struct ::stat status {};
  if (::stat(path.c_str(), &status) != 0)
    return failure("read", path);
  if ((status.st_mode & by_others) != 0)
    return fmt::format("{} may be read or written by others than its owner (mode {:04o}); run chmod 600 {}", path,
                       status.st_mode & 07777, path);
  if (status.st_uid != ::geteuid() && status.st_uid != 0)
    return fmt::format("{} belongs to another user (id {}) than this process's (id {})", path, status.st_uid,
                       ::geteuid());
  return storage::read_file(path, file_bytes_max, text);
}

} // namespace dynamix::links
