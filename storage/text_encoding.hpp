#pragma once

#include <string>

namespace dynamix::storage {

/// Text as UTF-8, by the mark that it begins with: UTF-16 of either byte order is converted, halves of characters
/// without the other half as U+FFFD, and the mark of UTF-8 is left out. Without a mark it stays as it is.
std::string to_utf8(std::string text);

} // namespace dynamix::storage
