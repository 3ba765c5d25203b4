#pragma once

/// How deep a TOML text is nested, found without recursion: toml++ needs a frame of the stack for each level of a
/// dotted key, and ends with the process where a file has tens of thousands of them.

#include "settings/toml_reader.hpp"

#include <cstddef>
#include <optional>
#include <string_view>

namespace dynamix::settings {

constexpr std::size_t nesting_most = 64; ///< parts of a key, or lists and tables in each other

/// Where the text is nested deeper than that; none: it is nowhere. Of a text that is no TOML, any answer.
std::optional<position> find_deep_nesting(std::string_view text);

} // namespace dynamix::settings
