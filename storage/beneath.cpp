#include "storage/beneath.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace dynamix::storage {

namespace fs = std::filesystem;

int open_parent_beneath(const std::string& root, const std::string& relative) {
  constexpr int kind = O_PATH | O_DIRECTORY | O_CLOEXEC;
  int directory = ::open(root.empty() ? "." : root.c_str(), kind);
  for (const auto& part : fs::path(relative).parent_path()) {
    if (directory < 0)
      break;
    const bool leaves = part == ".." || part.is_absolute();
    const int next = leaves ? -1 : ::openat(directory, part.c_str(), kind | O_NOFOLLOW);
    const int problem = leaves ? ENOTDIR : errno;
    ::close(directory);
    directory = next;
    errno = problem;
  }
  return directory;
}

std::string remove_beneath(const std::string& root, const std::string& relative) {
  const int directory = open_parent_beneath(root, relative);
  const bool removed = directory >= 0 && ::unlinkat(directory, fs::path(relative).filename().c_str(), 0) == 0;
  const int problem = errno;
  if (directory >= 0)
    ::close(directory);
  return removed || problem == ENOENT ? "" : std::strerror(problem);
}

int open_to_append_beneath(const std::string& path) {
  const fs::path whole(path);
  const auto root = whole.parent_path().parent_path();
  const auto relative = root.empty() ? whole : whole.lexically_relative(root);
  const int directory = open_parent_beneath(root, relative);
  if (directory < 0)
    return -1;
  const int flags = O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  const int file = ::openat(directory, whole.filename().c_str(), flags, 0644);
  const int problem = errno;
  ::close(directory);
  errno = problem;
  return file;
}

int open_to_read(const std::string& path, bool through_links) {
  const int file = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (file < 0)
    return -1;
  struct ::stat status {};
  std::error_code failed;
  errno = EINVAL;
  bool right = ::fstat(file, &status) == 0 && (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode)); // reading says so
  if (right && !through_links) { // as the kernel has found it: what lies there may change at any time
    right = fs::read_symlink("/proc/self/fd/" + std::to_string(file), failed) == fs::path(path);
    errno = ELOOP;
  }
  if (right)
    return file;
  const int problem = errno;
  ::close(file);
  errno = problem;
  return -1;
}

} // namespace dynamix::storage
