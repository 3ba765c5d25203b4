#pragma once

/// Files that are either whole or not there: written beside their place, synced, then renamed.

#include <cstdint>
#include <span>
#include <string>

namespace dynamix::storage {

/// Writes `bytes` to `path` atomically: a temporary file beside it, fsync, rename, fsync of the directory.
/// Returns an empty string, or what went wrong ("cannot write PATH: No space left on device"); then an existing file at
/// `path` is untouched and the temporary one is gone.
std::string write_file_atomically(const std::string& path, std::span<const std::uint8_t> bytes);
std::string write_file_atomically(const std::string& path, const std::string& text);

/// Reads a whole file of at most `limit_bytes`. Returns an empty string, or what went wrong.
std::string read_file(const std::string& path, std::size_t limit_bytes, std::string& contents);

} // namespace dynamix::storage
