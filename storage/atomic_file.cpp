#include "storage/atomic_file.hpp"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fmt/core.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace dynamix::storage {
namespace {

constexpr std::size_t random_letters = 6; ///< behind a dot, of a file that is not whole yet

class descriptor {
public:
  explicit descriptor(int number) : number_(number) {}
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  ~descriptor() {
    if (number_ >= 0)
      ::close(number_);
  }
  explicit operator bool() const { return number_ >= 0; }
  int get() const { return number_; }
  /// Closes now, so that an error which the file system reports only here is seen.
  bool close() { return ::close(std::exchange(number_, -1)) == 0; }

private:
  int number_;
};

bool write_all(int file, std::span<const std::uint8_t> bytes) {
  while (!bytes.empty()) {
    const auto written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      return false;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return true;
}

/// A rename is durable only once the directory that holds the name is.
bool sync_directory_of(const std::string& path) {
  const auto slash = path.rfind('/');
  const auto directory = slash == std::string::npos ? std::string(".") : path.substr(0, slash + 1);
  const descriptor handle(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some file systems cannot sync a directory and say EINVAL; then there is nothing more to be done.
  return handle && (::fsync(handle.get()) == 0 || errno == EINVAL);
}

std::string write_with_mode(const std::string& path, std::span<const std::uint8_t> bytes, ::mode_t mode) {
  std::string temporary = path + '.' + std::string(random_letters, 'X'); // as mkostemp wants it
  descriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!file)
    return failure("write", path);
  const bool written = write_all(file.get(), bytes) && ::fchmod(file.get(), mode) == 0 && ::fsync(file.get()) == 0 &&
                       file.close() && ::rename(temporary.c_str(), path.c_str()) == 0;
  if (!written) {
    auto error = failure("write", path);
    ::unlink(temporary.c_str());
    return error;
  }
  return sync_directory_of(path) ? "" : failure("sync the directory of", path);
}

} // namespace

std::string failure(std::string_view what, const std::string& path, int code) {
  return fmt::format("cannot {} {}: {}", what, path, std::generic_category().message(code));
}

std::string_view name_of_unfinished(std::string_view name) {
  const auto is_random = [](char each) { return std::isalnum(static_cast<unsigned char>(each)) != 0; };
  const auto end = name.size() - std::min(name.size(), 1 + random_letters);
  return end > 0 && name[end] == '.' && std::ranges::all_of(name.substr(end + 1), is_random) ? name.substr(0, end)
                                                                                             : std::string_view();
}

std::string write_file_atomically(const std::string& path, std::span<const std::uint8_t> bytes) {
  return write_with_mode(path, bytes, 0644);
}

std::string write_private_file(const std::string& path, std::span<const std::uint8_t> bytes) {
  return write_with_mode(path, bytes, 0600);
}

std::string write_file_atomically(const std::string& path, const std::string& text) {
  return write_file_atomically(path, {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
}

std::string write_output(const std::string& path, const std::string& text) {
  std::error_code unknown; // a new file, or one in a directory that is not there: told when it is written
  const auto type = std::filesystem::status(path, unknown).type();
  if (type != std::filesystem::file_type::fifo && type != std::filesystem::file_type::character) {
    const auto target = std::filesystem::canonical(path, unknown);
    return write_file_atomically(unknown ? path : target.string(), text);
  }
  descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  const bool written =
      file && write_all(file.get(), {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}) && file.close();
  return written ? "" : failure("write", path);
}

std::string read_file(const std::string& path, std::size_t limit_bytes, std::string& contents) {
  contents.clear();
  const descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct ::stat status {};
  if (!file || ::fstat(file.get(), &status) != 0)
    return failure("read", path);
  // The size is a hint only: a file may grow while it is read, and those of procfs say 0. One byte more than the limit
  // is asked for, to see whether the file ends there.
  constexpr std::size_t smallest_chunk = 4096;
  const auto wanted = std::max(static_cast<std::size_t>(status.st_size) + 1, smallest_chunk);
  while (true) {
    const auto old_size = contents.size();
    const auto chunk = std::min(wanted, limit_bytes + 1 - old_size);
    contents.resize(old_size + chunk);
    const auto got = ::read(file.get(), contents.data() + old_size, chunk);
    contents.resize(old_size + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return failure("read", path);
    if (got == 0)
      return "";
    if (contents.size() > limit_bytes)
      return fmt::format("cannot read {}: it is larger than {} bytes", path, limit_bytes);
  }
}

} // namespace dynamix::storage
