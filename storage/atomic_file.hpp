#pragma once

/// Files that are either whole or not there: written beside their place, synced, then renamed.

#include <cerrno>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace dynamix::storage {

/// Writes `bytes` to `path` atomically: a temporary file beside it, fsync, rename, fsync of the directory.
/// Returns an empty string, or what went wrong ("cannot write PATH: No space left on device"); then an existing file at
/// `path` is untouched and the temporary one is gone.
std::string write_file_atomically(const std::string& path, std::span<const std::uint8_t> bytes);
std::string write_file_atomically(const std::string& path, const std::string& text);
/// The same with mode 0600 from the first byte on: nobody but the owner may read it.
std::string write_private_file(const std::string& path, std::span<const std::uint8_t> bytes);

/// Writes to a place that a person has named: a pipe or a device takes the bytes, a symbolic link stays and what it
/// leads to is written, and all else is written atomically.
std::string write_output(const std::string& path, const std::string& text);

/// The file's name where `name` is that of the temporary one, which a writer that was killed has left; else empty.
std::string_view name_of_unfinished(std::string_view name);

/// How a file is to be written that may be signed: as the functions above.
using file_writer = std::function<std::string(const std::string& path, std::span<const std::uint8_t> bytes)>;
/// A signed file's signature lies beside it, under its name and this.
inline constexpr const char* signature_suffix = ".sig";
/// Where it lies while its file is written anew.
inline constexpr const char* former_signature_suffix = ".sig.before";

/// "cannot WHAT PATH: No space left on device".
std::string failure(std::string_view what, const std::string& path, int code = errno);

/// Reads a whole file of at most `limit_bytes`. Returns an empty string, or what went wrong.
std::string read_file(const std::string& path, std::size_t limit_bytes, std::string& contents);

} // namespace dynamix::storage
