#pragma once

#include <string>
#include <vector>

namespace dynamix::cluster {

enum class heading : bool { absent, first_row };

/// Columns of text padded to line up, two spaces between them; under a heading, columns of numbers stand to the right.
/// Each line begins with `indent` spaces and ends without trailing ones.
std::string text_table(const std::vector<std::vector<std::string>>& rows, std::size_t indent = 0,
                       heading head = heading::first_row);

} // namespace dynamix::cluster
