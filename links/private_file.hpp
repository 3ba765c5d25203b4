#pragma once

/// Files that nobody but their owner may read.

#include <string>

namespace dynamix::links {

/// Makes a directory of mode 0700, and those above it that are missing. Returns an empty string, or what went wrong.
std::string make_private_directory(const std::string& path);

/// Writes `text` to `path` atomically, with mode 0600 from its first byte on.
std::string write_private_file(const std::string& path, const std::string& text);

/// Reads a file of at most 64 KiB that only its owner may read, and which belongs to this process's user or to root.
/// Returns an empty string, or what is wrong, with the command that mends it.
std::string read_private_file(const std::string& path, std::string& text);

/// The same of a secret that people write: line ends behind it are not part of it.
std::string read_secret_file(const std::string& path, std::string& secret);
void drop_line_ends(std::string& secret);

} // namespace dynamix::links
