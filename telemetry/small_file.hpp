#pragma once

#include <cstddef>
#include <fcntl.h>
#include <string>
#include <unistd.h>

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

/// The first 64 KiB of a file; empty when it cannot be read.
inline std::string read_small_file(const std::string& path) {
  std::string text(64U << 10, '\0');
  if (!read_start(AT_FDCWD, path.c_str(), text.data(), text.size()))
    return "";
  text.resize(text.find('\0'));
  return text;
}

} // namespace dynamix::telemetry
