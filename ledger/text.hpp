#pragma once

/// Numbers and names as people read them.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace dynamix::ledger {

std::string fixed(double value, int decimals);
/// "87.31 %"
std::string percent(double share, int decimals = 2);
/// "9 s", "1:05", "2:03:09"; "-" for a negative or infinite duration.
std::string duration(double seconds);
/// "12,345"
std::string grouped(std::uint64_t number);
/// "12,345 made", and how many rows the ledger lacks where more were applied than it has made: whatever kept it from
/// writing, a full disk say.
std::string decisions_made_text(std::uint64_t made, std::uint64_t applied);
/// One block character a value, from the lowest to the highest of `low` and `high` on a logarithmic scale. More than
/// `width` values are thinned evenly.
std::string sparkline(const std::vector<double>& values, double low, double high, std::size_t width);
/// Without control characters and at most `limit` bytes: for text that others have written.
std::string printable(const std::string& text, std::size_t limit = 400);
/// "ada, ben, cleo": what `name` says of each.
template <class Range, class Name = std::identity>
std::string listed(const Range& range, Name name = {}) {
  std::string text;
  for (const auto& each : range)
    (text += text.empty() ? "" : ", ") += std::invoke(name, each);
  return text;
}

} // namespace dynamix::ledger
