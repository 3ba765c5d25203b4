#pragma once

/// Numbers as people read them.

#include <cstdint>
#include <string>
#include <vector>

namespace dynamix::node {

std::string fixed(double value, int decimals);
/// "87.31 %"
std::string percent(double share, int decimals = 2);
/// "9 s", "1:05", "2:03:09"; "-" for a negative or infinite duration.
std::string duration(double seconds);
/// "12,345"
std::string grouped(std::uint64_t number);
/// One block character a value, from the lowest to the highest of `low` and `high` on a logarithmic scale. More than
/// `width` values are thinned evenly.
std::string sparkline(const std::vector<double>& values, double low, double high, std::size_t width);
/// Without control characters and at most `limit` bytes: for text that others have written.
std::string printable(const std::string& text, std::size_t limit = 400);
/// As a shell (bash) reads it back, in ASCII: quotes only where they are needed.
std::string shell_quoted(const std::string& argument);

} // namespace dynamix::node
