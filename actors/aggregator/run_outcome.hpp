#pragma once

/// How a run that is over has ended. Knows no CAF.

#include "actors/aggregator/membership.hpp"
#include "actors/host_events.hpp"

#include <string>
#include <vector>

namespace dynamix::actors {

/// `why` it is over tells all where no worker has said anything.
part_outcome judge_run(const membership& members, const std::vector<messages::farewell>& farewells, bool stop_requested,
                       const std::string& why);

/// Whether a host's end is the run's, which a leading replica tells the others. Where this host alone fails, or `left`,
/// another leads on.
bool ends_run(const host_events::snapshot& ended, bool left, bool stop_asked);

} // namespace dynamix::actors
