#pragma once

/// Files of data sets as people have them: packed or not, under either name, and told apart by their first bytes.

#include <cstddef>
#include <string>
#include <string_view>

namespace dynamix::trainer {

/// Reads `path`, or `path`.gz when there is no such file, and unpacks what is gzip data, whatever its name. `path` is
/// then the one that was read. Returns an empty string, or what is wrong.
std::string read_data_file(std::string& path, std::size_t limit_bytes, std::string& contents);

/// What begins so, for a person: "a zip archive", "an HTML page"; empty: it has no mark that is known.
std::string_view kind_of_file(std::string_view contents);

/// The first bytes of a text, in which those that cannot be seen, or look like others, are numbers: `\xef\xbb\xbfid`.
std::string visible(std::string_view text, std::size_t bytes_max = 80);

} // namespace dynamix::trainer
