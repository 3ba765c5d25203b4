#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <unistd.h>
#include <utility>

namespace dynamix::telemetry {

/// The first `size - 1` bytes of a file below `directory` (or anywhere, with AT_FDCWD and an absolute path), and a zero
/// behind them. False when it cannot be read or is empty.
inline bool read_start(int directory, const char* path, char* text, std::size_t size) {
  const int file = openat(directory, path, O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return false;
  const ssize_t length = read(file, text, size - 1);
  close(file);
  text[length > 0 ? length : 0] = '\0';
  return length > 0;
}

/// A file that is read again and again, which takes a fifth of the time where it need not be opened each time.
class kept_file {
public:
  kept_file() = default;
  kept_file(int directory, const char* path) : descriptor_(openat(directory, path, O_RDONLY | O_CLOEXEC)) {}
  kept_file(kept_file&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  kept_file& operator=(kept_file&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~kept_file() {
    if (descriptor_ >= 0)
      close(descriptor_);
  }

  int descriptor() const { return descriptor_; } ///< -1: it cannot be opened
  /// As the function of that name.
  bool read_start(char* text, std::size_t size) const {
    const ssize_t length = descriptor_ < 0 ? -1 : pread(descriptor_, text, size - 1, 0);
    text[length > 0 ? length : 0] = '\0';
    return length > 0;
  }

private:
  int descriptor_ = -1;
};

/// The number that `text` begins with, behind spaces; `text` then begins behind it. False where there is none. A tenth
/// of what scanf takes.
inline bool take_number(const char*& text, std::uint64_t& number) {
  text += std::strspn(text, " \t\n");
  const auto [stopped, error] = std::from_chars(text, text + std::strlen(text), number);
  text = stopped;
  return error == std::errc();
}

/// The number behind the first `name` in `text`.
inline bool find_number(const char* text, const char* name, std::uint64_t& number) {
  const char* found = std::strstr(text, name);
  return found != nullptr && take_number(found += std::strlen(name), number);
}

/// The first 64 KiB of a file; empty when it cannot be read.
inline std::string read_small_file(const std::string& path) {
  std::string text(64U << 10, '\0');
  if (!read_start(AT_FDCWD, path.c_str(), text.data(), text.size()))
    return "";
  text.resize(text.find('\0'));
  return text;
}

} // namespace dynamix::telemetry
