#pragma once

#include <string>
#include <vector>

namespace dynamix::cluster {

/// Columns of text padded to line up: two spaces between them, numbers to the right, everything else to the left.
/// Each line begins with `indent` spaces and ends without trailing ones. The first row is the heading.
std::string text_table(const std::vector<std::vector<std::string>>& rows, std::size_t indent = 0);

} // namespace dynamix::cluster
