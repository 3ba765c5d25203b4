#include "node/trace.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dynamix::node {

clock_offset offset_of(const host_moments& host, const std::vector<ledger::row>& rows) {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  ledger::start start;
  for (const auto& row : rows) {
    if (const auto* begun = std::get_if<ledger::start>(&row.entry))
      start = *begun;
    if (!host.clock.empty() && host.clock == start.clock)
      return {.seconds = 0, .bound_seconds = 0, .known = true};
    const auto* window = std::get_if<ledger::window>(&row.entry);
    if (window == nullptr || start.origin_seconds == 0)
      continue;
    const double decided = start.origin_seconds + row.at_seconds;
    if (const auto report = host.reports.find({window->generation, window->key.window}); report != host.reports.end())
      low = std::max(low, report->second - (decided - window->decide_seconds));
    if (const auto decision = host.decisions.find({window->key.term, window->key.window});
        decision != host.decisions.end())
      high = std::min(high, decision->second - decided);
  }
  if (!std::isfinite(low) || !std::isfinite(high))
    return {};
  return {.seconds = (low + high) / 2, .bound_seconds = std::abs(high - low) / 2, .known = true};
}

} // namespace dynamix::node
