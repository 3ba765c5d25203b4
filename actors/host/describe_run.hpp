#pragma once

#include "actors/host/host.hpp"
#include "ledger/rows.hpp"

#include <cstdint>
#include <vector>

namespace dynamix::actors {

/// The ledger's first row of an arbitrator's life. `origin_seconds`: what its rows' times count from, on this machine's
/// monotonic clock. Throws std::invalid_argument where `parameters` do not fit the policy.
ledger::start describe_run(const host_options& options, const std::vector<std::uint8_t>& parameters,
                           double origin_seconds);

} // namespace dynamix::actors
