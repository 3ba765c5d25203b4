#pragma once

/// Files below a directory that others may write to: no symbolic link that they planted there is followed.

#include <string>

namespace dynamix::storage {

/// The directory of `relative` below `root`; links are followed in `root` alone. -1 with errno: ELOOP or ENOTDIR where
/// a link is in the way. The caller closes it.
int open_parent_beneath(const std::string& root, const std::string& relative);

/// Removes a file. Returns why not, or an empty string; a link is removed itself.
std::string remove_beneath(const std::string& root, const std::string& relative);

/// Opens a file to append to, or makes it; -1 with errno. Of `path` all is trusted but the last two parts: a file in a
/// directory of a run. What is not a file does not hold it up.
int open_to_append_beneath(const std::string& path);

/// Opens a file to read; -1 with errno. A pipe or device does not hold it up, and is none. `through_links`: otherwise
/// `path` is absolute and leads through no symbolic link, and what is reached through one is not opened.
int open_to_read(const std::string& path, bool through_links);

} // namespace dynamix::storage
